// Access to the machine's ports is asked for.
#include "probe/attack.hpp"

HR_PROBE(port_access) {
  return result(syscall(SYS_ioperm, 0x80, 1, 1));
}
