// The root is exchanged.
#include "probe/attack.hpp"

HR_PROBE(pivot_root) {
  return reached(syscall(SYS_pivot_root, place("HR_WORKTREE"), place("HR_WORKTREE", "/src")));
}
