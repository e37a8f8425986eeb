// A /proc with everything in it is mounted.
#include "probe/attack.hpp"

HR_PROBE(mount_proc) {
  return result(mount("proc", place("HR_WORKTREE", "/src"), "proc", 0, nullptr));
}
