// A mount is moved.
#include "probe/attack.hpp"

HR_PROBE(move_mount) {
  return reached(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, place("HR_WORKTREE", "/src"), 0));
}
