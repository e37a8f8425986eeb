// A directory outside is listed.
#include "probe/attack.hpp"

HR_PROBE(list_outside) {
  const int fd = open(place("HR_OUTSIDE"), O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    return refused(errno);
  }
  char buffer[1024];
  return result(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
}
