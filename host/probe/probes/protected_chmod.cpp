// The mode of a file below a protected name is changed.
#include "probe/attack.hpp"

HR_PROBE(protected_chmod) {
  return result(chmod(place("HR_WORKTREE", "/.git/HEAD"), 0600));
}
