// The clock is set (to an impossible time).
#include <ctime>

#include "probe/attack.hpp"

HR_PROBE(clock) {
  const timespec impossible{-1, -1};
  return reached(syscall(SYS_clock_settime, CLOCK_REALTIME, &impossible));
}
