#include "finish/artifacts.hpp"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include "attempt/completion.hpp"
#include "core/canonical.hpp"
#include "core/text.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::finish {
namespace {

struct Found {
  std::string sha256;
  const char* reason = nullptr;  // why it is not verified
};

std::string hash_of(int fd, std::uint64_t size, const char*& reason) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    reason = "unreadable";
    return {};
  }
  std::array<char, 1u << 16> buffer{};
  std::uint64_t seen = 0;
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      reason = "unreadable";
      return {};
    }
    if (n == 0) {
      break;
    }
    seen += static_cast<std::uint64_t>(n);
    if (seen > size) {
      reason = "changing";
      return {};
    }
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  return hex_encode({reinterpret_cast<const char*>(digest.data()), length});
}

Found look_at(int root, const std::string& path, std::uint64_t& budget) {
  auto opened = pathfs::open_regular_beneath(root, path);
  if (opened.has_error()) {
    if (pathfs::is(opened.error(), pathfs::Code::not_found)) {
      return {"", "missing"};
    }
    const std::string reason = pathfs::io_reason(opened.error());
    return {"", reason == "eacces" || reason == "eperm" ? "unreadable" : "not-a-file"};
  }
  const auto before = pathfs::identify(opened.value().get());
  if (before.has_error()) {
    return {"", "unreadable"};
  }
  if (before.value().size > budget) {
    return {"", "too-large"};
  }
  budget -= before.value().size;
  Found out;
  out.sha256 = hash_of(opened.value().get(), before.value().size, out.reason);
  const auto after = pathfs::identify(opened.value().get());
  if (out.reason == nullptr && (after.has_error() || !after.value().unchanged(before.value()))) {
    return {"", "changing"};
  }
  return out;
}

}  // namespace

json::Value artifacts(const workspace::Worktree& worktree, const workspace::Baseline& baseline,
                      const workspace::Evidence& evidence, int attempt_dirfd, const json::Value& envelope) {
  json::Value out = json::Value::array();
  std::uint64_t budget = max_artifact_bytes;
  for (const json::Value& output : envelope.get("expectedOutputs").items()) {
    if (output.find("path") == nullptr || output.get("path").is_null()) {
      continue;
    }
    const auto path = path_text(output.get("path"));
    const bool readable = path.has_value() && !path.value().empty();
    Found found = readable ? look_at(worktree.root_fd->get(), path.value(), budget) : Found{"", "not-a-file"};
    if (found.reason == nullptr) {
      const auto ours = workspace::made_by_run(worktree, baseline, evidence, attempt_dirfd, path.value());
      if (ours.has_error() || !ours.value()) {
        found.reason = "not-changed-by-run";
      }
    }
    json::Value item = json::Value::object({{"id", output.get("id")}, {"kind", "file"}});
    item.set("name", attempt::document_text(
                         readable ? path.value().substr(path.value().rfind('/') + 1) : std::string(), 500));
    item.set("reference", output.get("path"));
    item.set("mediaType", json::Value());
    item.set("sha256", found.sha256.empty() ? json::Value() : json::Value(found.sha256));
    item.set("verified", found.reason == nullptr);
    if (found.reason != nullptr) {
      item.set("reason", found.reason);
    }
    out.push(std::move(item));
  }
  return out;
}

}  // namespace hitchrail::finish
