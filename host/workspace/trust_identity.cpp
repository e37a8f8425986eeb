#include <algorithm>
#include <cerrno>

#include "core/canonical.hpp"
#include "pathfs/raw.hpp"
#include "workspace/git_config.hpp"
#include "workspace/trust_scan.hpp"

namespace hitchrail::workspace {
namespace {

// Without what could be a credential: user, password, query and fragment. `host:path` of ssh keeps its host.
std::string plain_remote(const std::string& url) {
  const std::size_t scheme = url.find("://");
  std::string out = url.substr(0, url.find_first_of("?#"));
  if (scheme != std::string::npos) {
    const std::size_t begin = scheme + 3;
    const std::size_t slash = std::min(out.find('/', begin), out.size());
    const std::size_t at = out.rfind('@', slash);
    if (at != std::string::npos && at >= begin) {
      out.erase(begin, at + 1 - begin);
    }
    return out;
  }
  const std::size_t at = out.find('@');
  return at != std::string::npos && at < out.find('/') ? out.substr(at + 1) : out;
}

std::string origin_of(const Worktree& worktree) {
  const auto text = pathfs::read_beneath(worktree.common_fd->get(), "config", 1u << 20);
  if (text.has_error()) {
    return "";
  }
  const auto config = GitConfig::parse(text.value(), "config");
  if (config.has_error()) {
    return "";
  }
  if (const auto origin = config.value().get("remote.origin.url")) {
    return plain_remote(*origin);
  }
  for (const auto& [key, value] : config.value().entries()) {
    if (key.starts_with("remote.") && key.ends_with(".url")) {
      return plain_remote(value);
    }
  }
  return "";
}

Result<json::Value> directory_json(const Fd& fd, const std::string& path) {
  pathfs::raw::Stat stat;
  if (!pathfs::raw::look(fd.get(), "", stat)) {
    return errno_error("look at directory", path, errno);
  }
  // The birth tells a directory from another one that was given its number later. 0 where the file system
  // does not know.
  return json::Value::object({{"pathDigest", sha256_prefixed(path)},
                              {"device", std::to_string(stat.device)},
                              {"inode", std::to_string(stat.inode)},
                              {"bornNs", std::to_string(stat.born_ns)}});
}

}  // namespace

Result<TrustIdentity> trust_identity(const Worktree& worktree) {
  TrustIdentity out;
  out.remote = origin_of(worktree);
  HR_TRY(workspace, directory_json(*worktree.root_fd, worktree.root));
  HR_TRY(repository, directory_json(*worktree.git_fd, worktree.git_dir));
  HR_TRY(common, directory_json(*worktree.common_fd, worktree.common_dir));
  out.document = json::Value::object({{"schemaVersion", "workspace-execution-trust-identity/v1"},
                                      {"workspace", std::move(workspace)},
                                      {"repository", std::move(repository)},
                                      {"commonDirectory", std::move(common)}});
  if (!out.remote.empty()) {
    out.document.set("remoteDigest", sha256_prefixed(out.remote));
  }
  HR_TRY(digest, seal_document(out.document));
  out.digest = digest;
  return out;
}

}  // namespace hitchrail::workspace
