// A system call is made by its x32 number.
#include "probe/attack.hpp"

HR_PROBE(x32_number) {
  return result(syscall(0x40000000 + SYS_getpid));
}
