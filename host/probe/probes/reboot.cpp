// The machine is restarted (with a wrong magic number).
#include "probe/attack.hpp"

HR_PROBE(reboot) {
  return reached(syscall(SYS_reboot, 1, 2, 0, nullptr));
}
