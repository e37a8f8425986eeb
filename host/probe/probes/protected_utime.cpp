// The times of a protected name are set.
#include "probe/attack.hpp"

HR_PROBE(protected_utime) {
  return result(utimensat(AT_FDCWD, place("HR_WORKTREE", "/.git"), nullptr, 0));
}
