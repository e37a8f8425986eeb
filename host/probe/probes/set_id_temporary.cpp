// A file without a name is made set-user-id, to be linked later.
#include "probe/attack.hpp"

HR_PROBE(set_id_temporary) {
  return result(open(place("HR_WORKTREE", "/src"), O_WRONLY | O_TMPFILE, 04755));
}
