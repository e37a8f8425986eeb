// A hard link to a file of the run is made outside.
#include "probe/attack.hpp"

HR_PROBE(link_made_outside) {
  return result(link(place("HR_WORKTREE", "/src/main.c"), place("HR_OUTSIDE", "/hard")));
}
