// The disk priority of a process outside is chosen.
#include "probe/attack.hpp"

HR_PROBE(input_priority_of_outsider) {
  return result(syscall(SYS_ioprio_set, 1, number("HR_OUTSIDER"), (2 << 13) | 7));
}
