// The console's selection is pasted (the pseudo-terminal has none).
#include "probe/attack.hpp"

HR_PROBE(terminal_selection) {
  const int terminal = own_terminal();
  if (terminal < 0) {
    return refused(errno);
  }
  return reached(syscall(SYS_ioctl, terminal, 0x541c /* TIOCLINUX */, "\3"));
}
