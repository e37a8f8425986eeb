// The scheduling class of a process outside is chosen.
#include "probe/attack.hpp"

HR_PROBE(scheduler_of_outsider) {
  sched_param none{};
  return result(sched_setscheduler(number("HR_OUTSIDER"), SCHED_BATCH, &none));
}
