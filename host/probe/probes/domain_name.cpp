// The domain name is set (to one of a wrong length).
#include "probe/attack.hpp"

HR_PROBE(domain_name) {
  return reached(syscall(SYS_setdomainname, "x", -1));
}
