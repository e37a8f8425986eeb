// The worktree itself is moved away.
#include "probe/attack.hpp"

HR_PROBE(rename_worktree) {
  char moved[4200];
  std::snprintf(moved, sizeof moved, "%s-moved", place("HR_WORKTREE"));
  return result(rename(place("HR_WORKTREE"), moved));
}
