// A copy of /dev/null is made.
#include <sys/sysmacros.h>

#include "probe/attack.hpp"

HR_PROBE(character_device) {
  return result(mknod(place("HR_WORKTREE", "/src/character"), S_IFCHR | 0600, makedev(1, 3)));
}
