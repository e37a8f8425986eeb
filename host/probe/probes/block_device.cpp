// A block device is made.
#include <sys/sysmacros.h>

#include "probe/attack.hpp"

HR_PROBE(block_device) {
  return result(mknod(place("HR_WORKTREE", "/src/block"), S_IFBLK | 0600, makedev(7, 0)));
}
