// The kernel's log is read.
#include "probe/attack.hpp"

HR_PROBE(kernel_log) {
  return result(syscall(SYS_syslog, 9 /* SYSLOG_ACTION_SIZE_UNREAD */, nullptr, 0));
}
