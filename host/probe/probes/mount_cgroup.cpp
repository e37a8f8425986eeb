// The control groups are mounted.
#include "probe/attack.hpp"

HR_PROBE(mount_cgroup) {
  return result(mount("none", place("HR_WORKTREE", "/src"), "cgroup2", 0, nullptr));
}
