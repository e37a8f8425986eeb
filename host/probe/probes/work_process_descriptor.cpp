// A child is waited for by its descriptor.
#include "probe/attack.hpp"

HR_PROBE(work_process_descriptor) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  pollfd gone{static_cast<int>(syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  return gone.fd < 0 ? refused(errno) : poll(&gone, 1, 1000) == 1 ? through() : refused(ETIMEDOUT);
}
