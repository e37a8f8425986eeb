// A file of the run is made set-user-id by chmod.
#include "probe/attack.hpp"

HR_PROBE(set_id_chmod) {
  return result(chmod(place("HR_WORKTREE", "/src/main.c"), 04755));
}
