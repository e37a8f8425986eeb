// A thread of it is sent a signal.
#include "probe/attack.hpp"

HR_PROBE(signal_thread_outsider) {
  return result(syscall(SYS_tgkill, number("HR_OUTSIDER"), number("HR_OUTSIDER"), SIGCONT));
}
