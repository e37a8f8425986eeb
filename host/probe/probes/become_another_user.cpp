// The program becomes another user.
#include "probe/attack.hpp"

HR_PROBE(become_another_user) {
  return result(syscall(SYS_setresuid, 12345, 12345, 12345));
}
