// A protected name that did not exist is made and filled.
#include "probe/attack.hpp"

HR_PROBE(protected_create) {
  if (mkdir(place("HR_WORKTREE", "/.agents"), 0755) < 0 && errno != EEXIST) {
    return refused(errno);
  }
  return result(open(place("HR_WORKTREE", "/.agents/config"), O_WRONLY | O_CREAT, 0644));
}
