// A descriptor of a process outside is taken.
#include "probe/attack.hpp"

HR_PROBE(descriptor_of_outsider) {
  const long fd = syscall(SYS_pidfd_open, number("HR_OUTSIDER"), 0);
  if (fd < 0) {
    return refused(errno);
  }
  return result(syscall(SYS_pidfd_getfd, fd, 1, 0));
}
