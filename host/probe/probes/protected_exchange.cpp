// A directory of the run is exchanged with the protected .git.
#include "probe/attack.hpp"

HR_PROBE(protected_exchange) {
  HR_NEED(mkdir(place("HR_WORKTREE", "/src/git"), 0755) == 0 || errno == EEXIST, "mkdir");
  return result(renameat2(AT_FDCWD, place("HR_WORKTREE", "/src/git"), AT_FDCWD, place("HR_WORKTREE", "/.git"),
                          RENAME_EXCHANGE));
}
