// An existing file below a protected name is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(protected_write) {
  return result(open(place("HR_WORKTREE", "/.git/HEAD"), O_WRONLY));
}
