// A denied directory is exchanged with one of the run.
#include "probe/attack.hpp"

HR_PROBE(denied_exchange) {
  HR_NEED(mkdir(place("HR_WORKTREE", "/src/swap"), 0755) == 0 || errno == EEXIST, "mkdir");
  return result(
      renameat2(AT_FDCWD, place("HR_DENIED"), AT_FDCWD, place("HR_WORKTREE", "/src/swap"), RENAME_EXCHANGE));
}
