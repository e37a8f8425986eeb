// The worktree is watched for changes.
#include <sys/inotify.h>

#include "probe/attack.hpp"

HR_PROBE(work_watch) {
  const int fd = inotify_init1(IN_CLOEXEC);
  HR_NEED(fd >= 0, "inotify");
  return result(inotify_add_watch(fd, place("HR_WORKTREE", "/src"), IN_ALL_EVENTS));
}
