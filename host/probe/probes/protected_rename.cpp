// A directory made under another name becomes a protected name.
#include "probe/attack.hpp"

HR_PROBE(protected_rename) {
  HR_NEED(mkdir(place("HR_WORKTREE", "/src/claude"), 0755) == 0 || errno == EEXIST, "mkdir");
  return result(rename(place("HR_WORKTREE", "/src/claude"), place("HR_WORKTREE", "/.claude")));
}
