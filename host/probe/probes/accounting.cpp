// Process accounting is switched on (to a file that does not exist).
#include "probe/attack.hpp"

HR_PROBE(accounting) {
  return reached(syscall(SYS_acct, "/nonexistent/account"));
}
