// A lease is taken on a file outside.
#include "probe/attack.hpp"

HR_PROBE(lease_outside) {
  const int fd = open(place("HR_OUTSIDE", "/secret"), O_RDONLY);
  if (fd < 0) {
    return refused(errno);
  }
  const int lease = fcntl(fd, F_SETLEASE, F_RDLCK);
  return lease < 0 && errno == EAGAIN ? through() : result(lease);  // EAGAIN: another has it open for writing
}
