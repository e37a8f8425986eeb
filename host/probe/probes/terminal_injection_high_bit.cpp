// The same with a high bit set, which the kernel does not look at.
#include "probe/attack.hpp"

HR_PROBE(terminal_injection_high_bit) {
  const int terminal = own_terminal();
  if (terminal < 0) {
    return refused(errno);
  }
  return result(syscall(SYS_ioctl, terminal, TIOCSTI | (1ul << 32), "x"));
}
