// A protected name is removed, so that another can be made.
#include "probe/attack.hpp"

HR_PROBE(protected_remove) {
  rmdir(place("HR_WORKTREE", "/.agents"));
  unlink(place("HR_WORKTREE", "/.git/HEAD"));
  const char* const below[] = {"/.git/objects", "/.git/refs", "/.git"};
  for (const char* name : below) {
    if (rmdir(place("HR_WORKTREE", name)) < 0) {
      return refused(errno);
    }
  }
  return through();
}
