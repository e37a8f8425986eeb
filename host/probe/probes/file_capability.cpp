// A file of the run is given a capability.
#include <sys/xattr.h>

#include "probe/attack.hpp"

HR_PROBE(file_capability) {
  const unsigned char value[20] = {1, 0, 0, 2, 1};
  return result(setxattr(place("HR_WORKTREE", "/src/main.c"), "security.capability", value, sizeof value, 0));
}
