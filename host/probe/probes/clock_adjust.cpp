// The clock's rate is changed (with an impossible value).
#include <sys/timex.h>

#include "probe/attack.hpp"

HR_PROBE(clock_adjust) {
  timex change{};
  change.modes = ADJ_TICK;
  change.tick = 1;
  return reached(adjtimex(&change));
}
