// It is cut to nothing.
#include "probe/attack.hpp"

HR_PROBE(protected_truncate) {
  return result(truncate(place("HR_WORKTREE", "/.git/HEAD"), 0));
}
