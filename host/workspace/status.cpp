#include "workspace/status.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "pathfs/walk.hpp"
#include "workspace/git_call.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxBlockingSearch = 200'000;

Error invalid(std::string_view line) {
  return Error{ErrorClass::internal,
               "git-output-invalid",
               "read git status",
               escape_cut(line, 80),
               "a line that git status --porcelain=v2 does not have",
               "report the version of git (`git version`)"};
}

// The field after `count` spaces.
std::string_view after_fields(std::string_view line, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return {};
    }
    line.remove_prefix(space + 1);
  }
  return line;
}

std::string_view field(std::string_view line, int index) {
  const std::string_view rest = after_fields(line, index);
  return rest.substr(0, rest.find(' '));
}

const char* status_word(std::string_view xy) {
  if (xy.find('R') != std::string_view::npos) {
    return "renamed";
  }
  if (xy.find('D') != std::string_view::npos) {
    return "deleted";
  }
  if (xy.find('A') != std::string_view::npos || xy.find('C') != std::string_view::npos) {
    return "added";
  }
  return "modified";
}

void set_blob(FileState& file, std::string_view oid) {
  if (oid.find_first_not_of('0') != std::string_view::npos) {
    file.index_blob = std::string(oid);
  }
}

Result<std::string> hash_regular(int fd, std::uint64_t size, std::uint64_t& budget) {
  if (size > budget) {
    return std::string();
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return errno_error("hash", "file", ENOMEM);
  }
  std::array<char, 1u << 16> buffer{};
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno_error("read", "file", errno);
    }
    if (n == 0) {
      break;
    }
    if (static_cast<std::uint64_t>(n) > budget) {
      return std::string();  // it grew while it was read
    }
    budget -= static_cast<std::uint64_t>(n);
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  return hex_encode({reinterpret_cast<const char*>(digest.data()), length});
}

std::string hash_entry(int root_fd, const std::string& path, std::uint64_t& budget) {
  auto opened = pathfs::open_beneath(root_fd, path, O_RDONLY);
  if (opened.has_value()) {
    const auto identity = pathfs::identify(opened.value().get());
    if (identity.has_error() || identity.value().type != pathfs::FileType::regular) {
      return {};
    }
    auto hash = hash_regular(opened.value().get(), identity.value().size, budget);
    return hash.has_value() ? std::move(hash).value() : std::string();
  }
  const auto text = pathfs::read_link_beneath(root_fd, path);  // the link itself, if that is what it is
  return text.has_value() ? sha256_hex(text.value()) : std::string();
}

}  // namespace

std::vector<std::string> status_arguments() {
  return {"status",      "--porcelain=v2",        "--branch",
          "-z",          "--untracked-files=all", "--ignore-submodules=dirty",
          "--no-renames"};
}

Result<StatusOutput> parse_status(std::string_view output) {
  StatusOutput out;
  std::string_view line;
  while (next_field(output, line)) {
    if (line.size() < 3) {
      return invalid(line);
    }
    FileState file;
    switch (line[0]) {
      case '#':
        if (line.starts_with("# branch.oid ") && line != "# branch.oid (initial)") {
          out.head_oid = std::string(line.substr(13));
        }
        continue;
      case '1':
        file.path = std::string(after_fields(line, 8));
        file.status = status_word(field(line, 1));
        set_blob(file, field(line, 7));
        break;
      case '2': {
        file.path = std::string(after_fields(line, 9));
        file.status = status_word(field(line, 1));
        set_blob(file, field(line, 7));
        std::string_view previous;
        if (!next_field(output, previous)) {
          return invalid(line);
        }
        file.previous_path = std::string(previous);
        break;
      }
      case 'u':
        file.path = std::string(after_fields(line, 10));
        file.status = "conflicted";
        break;
      case '?':
        file.path = std::string(line.substr(2));
        file.status = "untracked";
        break;
      default:
        return invalid(line);
    }
    if (file.path.empty()) {
      return invalid(line);
    }
    out.files.push_back(std::move(file));
  }
  std::sort(out.files.begin(), out.files.end(),
            [](const FileState& a, const FileState& b) { return a.path < b.path; });
  return out;
}

void hash_files(int root_fd, std::vector<FileState>& files, std::uint64_t budget) {
  for (FileState& file : files) {
    file.worktree_sha256 = hash_entry(root_fd, file.path, budget);
  }
}

std::string find_blocking_entry(int root_fd) {
  const pathfs::WalkLimits limits{64, kMaxBlockingSearch, kMaxBlockingSearch};
  std::string found;
  (void)pathfs::walk(root_fd, "", limits, [&found](const pathfs::Visit& visit) {
    if (visit.name == ".git") {
      return pathfs::Next::skip;
    }
    if (visit.type == pathfs::FileType::other &&
        (visit.name == ".gitignore" || visit.name == ".gitattributes")) {
      found = visit.path();
      return pathfs::Next::stop;
    }
    return pathfs::Next::go_on;
  });
  return found;
}

}  // namespace hitchrail::workspace
