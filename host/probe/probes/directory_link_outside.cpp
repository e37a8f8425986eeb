// A link to a directory outside is followed on the way to a file.
#include "probe/attack.hpp"

HR_PROBE(directory_link_outside) {
  const char* link = place("HR_WORKTREE", "/src/outside");
  HR_NEED(symlink(place("HR_OUTSIDE"), link) == 0 || errno == EEXIST, "symlink");
  return result(open(place("HR_WORKTREE", "/src/outside/secret"), O_RDONLY));
}
