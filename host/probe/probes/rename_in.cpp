// A file outside is moved into the worktree.
#include "probe/attack.hpp"

HR_PROBE(rename_in) {
  return result(rename(place("HR_OUTSIDE", "/secret"), place("HR_WORKTREE", "/src/moved")));
}
