// A program written into the worktree is executed.
#include "probe/attack.hpp"

HR_PROBE(work_script) {
  const int fd = open(place("HR_WORKTREE", "/src/script"), O_WRONLY | O_CREAT, 0755);
  HR_NEED(fd >= 0 && write(fd, "#!/bin/sh\nexit 0\n", 17) == 17 && close(fd) == 0, "write");
  return execute(place("HR_WORKTREE", "/src/script"));
}
