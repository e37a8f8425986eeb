// A directory is exchanged with a link to the outside again and again while a file in it is opened.
#include "probe/attack.hpp"

HR_PROBE(exchange_race) {
  HR_NEED(mkdir(place("HR_WORKTREE", "/src/race"), 0755) == 0 || errno == EEXIST, "mkdir");
  HR_NEED(symlink(place("HR_OUTSIDE"), place("HR_WORKTREE", "/src/trap")) == 0 || errno == EEXIST, "symlink");
  const char* real = place("HR_WORKTREE", "/src/race");
  const char* trap = place("HR_WORKTREE", "/src/trap");
  const char* file = place("HR_WORKTREE", "/src/race/secret");
  const pid_t swapper = fork();
  while (swapper == 0) {
    renameat2(AT_FDCWD, real, AT_FDCWD, trap, RENAME_EXCHANGE);
    sched_yield();
  }
  int fd = -1;
  int error = 0;
  for (int i = 0; i < 5000 && fd < 0; ++i) {
    fd = open(file, O_RDONLY);
    if (i % 64 == 0) {
      sched_yield();
    }
    error = fd < 0 && errno != ENOENT ? errno : error;
  }
  kill(swapper, SIGKILL);
  waitpid(swapper, nullptr, 0);
  // However the other was scheduled: the link was in the way at least once.
  for (int i = 0; i < 2 && fd < 0; ++i) {
    renameat2(AT_FDCWD, real, AT_FDCWD, trap, RENAME_EXCHANGE);
    fd = open(file, O_RDONLY);
    error = fd < 0 && errno != ENOENT ? errno : error;
  }
  return fd >= 0 ? through() : refused(error != 0 ? error : ENOENT);
}
