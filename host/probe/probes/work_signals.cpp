// A child of the program is stopped, continued and ended by signals.
#include "probe/attack.hpp"

HR_PROBE(work_signals) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  if (kill(child, SIGSTOP) < 0 || kill(child, SIGCONT) < 0) {
    return refused(errno);
  }
  const int ended = kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return result(ended);
}
