// The same by creat.
#include "probe/attack.hpp"

HR_PROBE(set_id_creat) {
  return result(creat(place("HR_WORKTREE", "/src/setid-creat"), 04755));
}
