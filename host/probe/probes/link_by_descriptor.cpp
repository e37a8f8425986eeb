// The same by descriptor, so that no path of the read-only root is named.
#include "probe/attack.hpp"

HR_PROBE(link_by_descriptor) {
  const int fd = open(place("HR_READABLE", "/file"), O_RDONLY);
  HR_NEED(fd >= 0, "open");
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return result(linkat(AT_FDCWD, path, AT_FDCWD, place("HR_WORKTREE", "/src/hard"), AT_SYMLINK_FOLLOW));
}
