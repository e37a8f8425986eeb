// A file is made set-user-id when it is opened.
#include "probe/attack.hpp"

HR_PROBE(set_id_open) {
  return result(syscall(SYS_open, place("HR_WORKTREE", "/src/setid-open"), O_WRONLY | O_CREAT, 04755));
}
