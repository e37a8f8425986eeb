// It is sent a signal by its descriptor.
#include "probe/attack.hpp"

HR_PROBE(signal_by_descriptor) {
  const long fd = syscall(SYS_pidfd_open, number("HR_OUTSIDER"), 0);
  if (fd < 0) {
    return refused(errno);
  }
  return result(syscall(SYS_pidfd_send_signal, fd, SIGCONT, nullptr, 0));
}
