// The init that started the run is killed.
#include "probe/attack.hpp"

HR_PROBE(signal_parent) {
  const pid_t parent = number("HR_PARENT");
  pollfd gone{static_cast<int>(syscall(SYS_pidfd_open, parent, 0)), POLLIN, 0};
  HR_NEED(gone.fd >= 0, "pidfd");
  if (kill(parent, SIGKILL) < 0) {
    return refused(errno);
  }
  return poll(&gone, 1, 50) == 1 ? through() : without_effect();
}
