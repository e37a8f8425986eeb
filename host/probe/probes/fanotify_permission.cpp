// File accesses are decided about.
#include "probe/attack.hpp"

HR_PROBE(fanotify_permission) {
  return result(syscall(SYS_fanotify_init, 4 /* FAN_CLASS_CONTENT */, O_RDONLY));
}
