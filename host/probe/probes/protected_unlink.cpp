// It is removed.
#include "probe/attack.hpp"

HR_PROBE(protected_unlink) {
  return result(unlink(place("HR_WORKTREE", "/.git/HEAD")));
}
