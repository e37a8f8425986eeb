// The same, from a descriptor of the worktree.
#include "probe/attack.hpp"

HR_PROBE(dotdot_descriptor) {
  const int fd = open(place("HR_WORKTREE"), O_RDONLY | O_DIRECTORY);
  HR_NEED(fd >= 0, "open");
  return result(openat(fd, "../outside/secret", O_RDONLY));
}
