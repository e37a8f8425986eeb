// A process in a session of its own is started and answers.
#include "probe/attack.hpp"

HR_PROBE(work_orphan) {
  int fds[2];
  HR_NEED(pipe(fds) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (setsid() > 0 && fork() == 0) {
      (void)!write(fds[1], "x", 1);
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(fds[1]);
  char byte = 0;
  return read(fds[0], &byte, 1) == 1 ? through() : refused(errno);
}
