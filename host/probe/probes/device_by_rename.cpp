// A rename that leaves a character device behind (0:0, which the kernel lets everybody make).
#include <fcntl.h>
#include <sys/syscall.h>

#include "probe/attack.hpp"

HR_PROBE(device_by_rename) {
  const char* from = place("HR_WORKTREE", "/src/renamed");
  const int made = open(from, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (made < 0) {
    return result(made);
  }
  close(made);
  constexpr unsigned whiteout = 1u << 2;
  return result(static_cast<int>(
      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, place("HR_WORKTREE", "/src/renamed-to"), whiteout)));
}
