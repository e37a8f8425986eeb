// The same with a high bit set.
#include "probe/attack.hpp"

HR_PROBE(terminal_selection_high_bit) {
  const int terminal = own_terminal();
  if (terminal < 0) {
    return refused(errno);
  }
  return reached(syscall(SYS_ioctl, terminal, 0x541cul | (1ul << 32), "\3"));
}
