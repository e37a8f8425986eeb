// A hard link to a file outside is made in the worktree.
#include "probe/attack.hpp"

HR_PROBE(link_outside) {
  return result(link(place("HR_OUTSIDE", "/secret"), place("HR_WORKTREE", "/src/hard")));
}
