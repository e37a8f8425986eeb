// A character device is made (0:0, which the kernel lets everybody make).
#include "probe/attack.hpp"

HR_PROBE(device_node) {
  return result(mknod(place("HR_WORKTREE", "/src/whiteout"), S_IFCHR | 0600, 0));
}
