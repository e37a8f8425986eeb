// The same with bits set that the kernel does not look at.
#include "probe/attack.hpp"

HR_PROBE(set_id_high_bits) {
  return result(syscall(SYS_chmod, place("HR_WORKTREE", "/src/main.c"), 04755ul | (1ul << 40)));
}
