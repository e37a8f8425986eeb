// The root is moved.
#include "probe/attack.hpp"

HR_PROBE(chroot) {
  return result(chroot(place("HR_WORKTREE")));
}
