// A file of the run is made set-user-id by the newest call.
#include "probe/attack.hpp"

HR_PROBE(set_id_fchmodat2) {
  return result(syscall(452, AT_FDCWD, place("HR_WORKTREE", "/src/main.c"), 04755, 0));
}
