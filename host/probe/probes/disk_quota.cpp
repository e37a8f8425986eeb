// A disk quota is changed (on a device that does not exist).
#include "probe/attack.hpp"

HR_PROBE(disk_quota) {
  return reached(syscall(SYS_quotactl, 0x80000200u, "/nonexistent", 0, nullptr));
}
