// An overlay is mounted.
#include "probe/attack.hpp"

HR_PROBE(mount_overlay) {
  return reached(mount("none", place("HR_WORKTREE", "/src"), "overlay", 0, "lowerdir=/usr"));
}
