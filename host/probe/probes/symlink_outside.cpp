// A link made in the worktree points outside and is followed.
#include "probe/attack.hpp"

HR_PROBE(symlink_outside) {
  const char* link = place("HR_WORKTREE", "/src/link");
  HR_NEED(symlink(place("HR_OUTSIDE", "/secret"), link) == 0 || errno == EEXIST, "symlink");
  return result(open(link, O_RDONLY));
}
