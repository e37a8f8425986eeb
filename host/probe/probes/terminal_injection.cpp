// A character is pushed into the input of a terminal.
#include "probe/attack.hpp"

HR_PROBE(terminal_injection) {
  const int terminal = own_terminal();
  if (terminal < 0) {
    return refused(errno);
  }
  return result(syscall(SYS_ioctl, terminal, TIOCSTI, "x"));
}
