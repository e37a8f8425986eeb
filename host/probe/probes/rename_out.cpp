// A file of the run is moved over one outside.
#include "probe/attack.hpp"

HR_PROBE(rename_out) {
  return result(rename(place("HR_WORKTREE", "/src/main.c"), place("HR_OUTSIDE", "/secret")));
}
