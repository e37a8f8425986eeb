// The same with AT_EMPTY_PATH.
#include "probe/attack.hpp"

HR_PROBE(link_empty_path) {
  const int fd = open(place("HR_READABLE", "/file"), O_RDONLY);
  HR_NEED(fd >= 0, "open");
  return result(linkat(fd, "", AT_FDCWD, place("HR_WORKTREE", "/src/hard"), AT_EMPTY_PATH));
}
