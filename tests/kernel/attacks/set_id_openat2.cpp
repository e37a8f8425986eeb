// A file is made set-user-id by openat2, whose mode no filter can see.
#include <linux/openat2.h>

#include "attack.hpp"

int main() {
  open_how how{};
  how.flags = O_WRONLY | O_CREAT;
  how.mode = 04755;
  return attack::result(
      syscall(SYS_openat2, AT_FDCWD, attack::place("HR_WORKTREE", "/src/setid").c_str(), &how, sizeof how));
}
