// A process in a session of its own lives on when init is gone.
#include <sys/file.h>

#include "probe/attack.hpp"

HR_PROBE(daemon) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0) {
      const int lock = open(place("HR_WORKTREE", "/src/daemon"), O_RDWR | O_CREAT, 0644);
      signal(SIGTERM, SIG_IGN);
      if (lock >= 0 && flock(lock, LOCK_EX) == 0) {
        (void)!write(lock, "x", 1);
        pause();
      }
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  struct stat info {};
  for (int i = 0; i < 1000 && info.st_size == 0; ++i) {
    usleep(1000);
    stat(place("HR_WORKTREE", "/src/daemon"), &info);
  }
  HR_NEED(info.st_size != 0, "daemon");
  return through();
}
