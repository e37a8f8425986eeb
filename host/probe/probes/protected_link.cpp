// A file of the run is linked into .git.
#include "probe/attack.hpp"

HR_PROBE(protected_link) {
  return result(link(place("HR_WORKTREE", "/src/main.c"), place("HR_WORKTREE", "/.git/linked")));
}
