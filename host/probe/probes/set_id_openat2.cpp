// A file is made set-user-id by openat2, whose mode no filter can see.
#include <linux/openat2.h>

#include "probe/attack.hpp"

HR_PROBE(set_id_openat2) {
  open_how how{};
  how.flags = O_WRONLY | O_CREAT;
  how.mode = 04755;
  return result(syscall(SYS_openat2, AT_FDCWD, place("HR_WORKTREE", "/src/setid-openat2"), &how, sizeof how));
}
