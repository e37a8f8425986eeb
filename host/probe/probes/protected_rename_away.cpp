// The protected .git is moved to another name.
#include "probe/attack.hpp"

HR_PROBE(protected_rename_away) {
  return result(rename(place("HR_WORKTREE", "/.git"), place("HR_WORKTREE", "/src/old-git")));
}
