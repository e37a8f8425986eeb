// A character is pushed into the input of a terminal.
#include <sys/ioctl.h>

#include "attack.hpp"

int main() {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) {
    return attack::result(-1);
  }
  attack::need(grantpt(terminal) == 0 && unlockpt(terminal) == 0, "pty");
  if (setsid() < 0 && fork() > 0) {
    int status = 0;
    wait(&status);
    return WEXITSTATUS(status);
  }
  setsid();
  const int own = open(ptsname(terminal), O_RDWR);
  attack::need(own >= 0 && ioctl(own, TIOCSCTTY, 0) == 0, "terminal");
  return attack::result(syscall(SYS_ioctl, own, TIOCSTI, "x"));
}
