// A new name is made at the top of the worktree.
#include "probe/attack.hpp"

HR_PROBE(work_new_name) {
  return result(open(place("HR_WORKTREE", "/new.txt"), O_WRONLY | O_CREAT | O_EXCL, 0644));
}
