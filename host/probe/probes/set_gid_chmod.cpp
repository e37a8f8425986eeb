// A file of the run is made set-group-id by chmod.
#include "probe/attack.hpp"

HR_PROBE(set_gid_chmod) {
  return result(chmod(place("HR_WORKTREE", "/src/main.c"), 02755));
}
