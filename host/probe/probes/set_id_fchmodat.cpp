// A file of the run is made set-user-id relative to a directory.
#include "probe/attack.hpp"

HR_PROBE(set_id_fchmodat) {
  return result(fchmodat(AT_FDCWD, place("HR_WORKTREE", "/src/main.c"), 04755, 0));
}
