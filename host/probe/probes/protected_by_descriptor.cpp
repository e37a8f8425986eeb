// A protected name is made relative to a descriptor of the worktree.
#include "probe/attack.hpp"

HR_PROBE(protected_by_descriptor) {
  const int fd = open(place("HR_WORKTREE"), O_PATH | O_DIRECTORY);
  HR_NEED(fd >= 0, "open");
  return result(openat(fd, ".git/config", O_WRONLY | O_CREAT, 0644));
}
