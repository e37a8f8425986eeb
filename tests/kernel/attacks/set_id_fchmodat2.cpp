// A file of the run is made set-user-id by the newest call.
#include "attack.hpp"

int main() {
  return attack::result(
      syscall(452, AT_FDCWD, attack::place("HR_WORKTREE", "/src/main.c").c_str(), 04755, 0));
}
