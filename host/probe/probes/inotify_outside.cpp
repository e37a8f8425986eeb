// A directory outside is watched.
#include <sys/inotify.h>

#include "probe/attack.hpp"

HR_PROBE(inotify_outside) {
  const int fd = inotify_init1(IN_CLOEXEC);
  HR_NEED(fd >= 0, "inotify");
  return result(inotify_add_watch(fd, place("HR_OUTSIDE"), IN_ALL_EVENTS));
}
