#include "finish/cleanup.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "attempt/attempt.hpp"
#include "pathfs/edit.hpp"

namespace hitchrail::finish {
namespace {

Status remove_name(int dirfd, const char* name) {
  if (::unlinkat(dirfd, name, 0) != 0 && errno != ENOENT) {
    return errno_error("remove", name, errno);
  }
  return {};
}

// The harness owned the home: a link in the way is not followed, and then there is no copy of ours behind it.
Status remove_login(int attempt_dirfd, const std::string& path) {
  const Status removed = pathfs::remove_file_beneath(attempt_dirfd, "home/" + path);
  return removed.has_error() && pathfs::is(removed.error(), pathfs::Code::io) ? removed : Status{};
}

}  // namespace

Result<Fd> open_state_home(int attempt_dirfd, const std::string& attempt_id) {
  Fd state(::openat(attempt_dirfd, "../..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat here {};
  struct stat there {};
  const std::string path = std::string(attempt::attempts_folder) + "/" + attempt_id;
  if (!state.valid() || ::fstat(attempt_dirfd, &here) != 0 ||
      ::fstatat(state.get(), path.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || here.st_ino != there.st_ino ||
      here.st_dev != there.st_dev) {
    return Error{ErrorClass::environment,
                 "attempt-moved",
                 "finish run",
                 attempt_id,
                 "the attempt directory does not lie in a state directory",
                 "move it back below attempts/"};
  }
  return state;
}

Status cleanup(int attempt_dirfd, const json::Value& header, bool keep_git) {
  HR_CHECK(remove_name(attempt_dirfd, "s"));
  HR_CHECK(remove_name(attempt_dirfd, "c"));
  for (const json::Value& path : header.get("loginFiles").items()) {
    if (path.is_string()) {
      HR_CHECK(remove_login(attempt_dirfd, path.as_string()));
    }
  }
  (void)pathfs::remove_tree_beneath(attempt_dirfd, "temp");
  (void)pathfs::remove_tree_beneath(attempt_dirfd,
                                    "gate-scratch");  // of a gate that was killed with its finisher
  if (!keep_git) {
    (void)pathfs::remove_tree_beneath(attempt_dirfd, "git");
    (void)pathfs::remove_tree_beneath(attempt_dirfd, "git-base");
    (void)pathfs::remove_tree_beneath(attempt_dirfd, "git-gate");
  }
  return {};
}

}  // namespace hitchrail::finish
