#include "workspace/masks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>

#include "core/file.hpp"
#include "workspace/git_call.hpp"
#include "workspace/index_entries.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxListing = 512u << 20;

// The files were made for the worktree's owner; this keeps them that.
Status append(int dir, const std::string& name, const std::string& text) {
  HR_TRY(file, open_at(dir, name, O_WRONLY | O_APPEND | O_CREAT, 0600));
  struct stat own {};
  struct stat folder {};
  if (::fstat(file.get(), &own) != 0 || ::fstat(dir, &folder) != 0) {
    return errno_error("stat", name, errno);
  }
  const bool other = own.st_uid != folder.st_uid || own.st_gid != folder.st_gid;
  if (::geteuid() == 0 && other && ::fchown(file.get(), folder.st_uid, folder.st_gid) != 0) {
    return errno_error("change owner", name, errno);
  }
  return write_all(file.get(), text);
}

// The import boundary lets git write in a directory only while it can hold config, hooks and info.
Status make_hooks(int dir) {
  struct stat folder {};
  if (::mkdirat(dir, "hooks", 0700) != 0 && errno != EEXIST) {
    return errno_error("make directory", "hooks", errno);
  }
  if (::fstat(dir, &folder) != 0 ||
      (::geteuid() == 0 &&
       ::fchownat(dir, "hooks", folder.st_uid, folder.st_gid, AT_SYMLINK_NOFOLLOW) != 0)) {
    return errno_error("change owner", "hooks", errno);
  }
  return {};
}

bool sparse_checkout(const Worktree& worktree) {
  const auto found = worktree.config.find("core.sparsecheckout");
  return found != worktree.config.end() && found->second != "false" && found->second != "no" &&
         found->second != "off" && found->second != "0";
}

bool is_masked(const std::unordered_set<std::string>& masks, const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (masks.count(path.substr(0, slash)) != 0) {
      return true;
    }
  }
  return masks.count(path) != 0;
}

}  // namespace

std::string exclude_pattern(const std::string& path) {
  std::string out = "/";
  for (const char c : path) {
    if (c == '\n') {
      out += '?';
      continue;
    }
    if (c == '\\' || c == '*' || c == '?' || c == '[' || c == ' ' || c == '\r') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

Status hide_masked(const Worktree& worktree, int attempt_dirfd, const std::string& attempt_path,
                   const std::vector<std::string>& paths, const GitRunner& git) {
  if (paths.empty()) {
    return {};
  }
  std::string excludes = "\n";  // the file before may end without a line feed
  std::string sparse = "\n";
  for (const std::string& path : paths) {
    const std::string pattern = exclude_pattern(path) + "\n";
    excludes += pattern;
    sparse += "!" + pattern;
  }
  HR_TRY(own, open_at(attempt_dirfd, "git", O_RDONLY | O_DIRECTORY));
  HR_TRY(info, open_at(own.get(), "info", O_RDONLY | O_DIRECTORY));
  HR_CHECK(append(info.get(), "exclude", excludes));
  // A checkout without the masked paths: git then leaves them alone in reset, switch and merge too. Without
  // the second setting it would take the bit away again because something is there.
  const bool was_sparse =
      ::faccessat(info.get(), "sparse-checkout", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && sparse_checkout(worktree);
  if (!was_sparse) {
    (void)::unlinkat(info.get(), "sparse-checkout", 0);
    sparse.insert(0, "/*");
  }
  HR_CHECK(append(info.get(), "sparse-checkout", sparse));
  HR_CHECK(append(own.get(), "config",
                  "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = false\n"
                  "[sparse]\n\texpectFilesOutsideOfPatterns = true\n"));

  const std::string base_path = attempt_path + "/git-base";
  GitCall list = git_call(base_path, worktree.root);
  list.args = {"ls-files", "--stage", "-z"};
  list.readable = worktree.object_stores;  // a sparse index is expanded from its trees
  list.readable.push_back(base_path);
  list.max_output = kMaxListing;
  HR_TRY(output, git_output(git, list));
  HR_TRY(entries, parse_index(output, worktree.object_format));
  const std::unordered_set<std::string> masks(paths.begin(), paths.end());
  std::string tracked;
  for (const auto& [key, entry] : entries) {
    if (key.second == 0 && is_masked(masks, key.first)) {  // a conflicted entry stays as it is
      tracked += key.first + '\0';
    }
  }
  if (tracked.empty()) {
    return {};
  }
  HR_CHECK(make_hooks(own.get()));
  GitCall mark = git_call(attempt_path + "/git", worktree.root);
  mark.import_git_dir = attempt_path + "/git";
  mark.readable = worktree.object_stores;
  mark.args = {"update-index", "-z", "--skip-worktree", "--stdin"};
  mark.input = std::move(tracked);
  HR_TRY(done, git_output(git, mark));
  (void)done;
  return {};
}

}  // namespace hitchrail::workspace
