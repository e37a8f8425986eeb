// A pseudo-terminal is opened and used.
#include "probe/attack.hpp"

HR_PROBE(work_terminal) {
  const int terminal = own_terminal();
  return terminal < 0 ? refused(errno) : result(write(terminal, "x", 1));
}
