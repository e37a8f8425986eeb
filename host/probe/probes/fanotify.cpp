// File accesses of a mount are listened to.
#include "probe/attack.hpp"

HR_PROBE(fanotify) {
  return result(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY));
}
