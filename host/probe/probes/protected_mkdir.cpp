// A protected name that did not exist is made as a directory.
#include "probe/attack.hpp"

HR_PROBE(protected_mkdir) {
  return result(mkdir(place("HR_WORKTREE", "/.hitchrail"), 0755));
}
