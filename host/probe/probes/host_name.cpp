// The host name is set (to one of a wrong length).
#include "probe/attack.hpp"

HR_PROBE(host_name) {
  return reached(syscall(SYS_sethostname, "x", -1));
}
