// The descriptors of a process outside are compared with the program's own.
#include "probe/attack.hpp"

HR_PROBE(kcmp_outsider) {
  return result(syscall(SYS_kcmp, getpid(), number("HR_OUTSIDER"), 0, 1, 1));
}
