// The file outside is reached through /proc/self/fd of a directory.
#include "probe/attack.hpp"

HR_PROBE(proc_descriptor) {
  const int fd = open(place("HR_WORKTREE"), O_PATH | O_DIRECTORY);
  HR_NEED(fd >= 0, "open");
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d/../outside/secret", fd);
  return result(open(path, O_RDONLY));
}
