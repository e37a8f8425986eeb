// A file of a read-only root, open for reading, is opened again for writing through /proc.
#include "probe/attack.hpp"

HR_PROBE(descriptor_reopened) {
  const int fd = open(place("HR_READABLE", "/file"), O_RDONLY);
  HR_NEED(fd >= 0, "open");
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return result(open(path, O_WRONLY));
}
