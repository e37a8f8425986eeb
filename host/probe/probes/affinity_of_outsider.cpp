// The processors of a process outside are chosen.
#include "probe/attack.hpp"

HR_PROBE(affinity_of_outsider) {
  cpu_set_t set;
  CPU_ZERO(&set);
  HR_NEED(sched_getaffinity(0, sizeof set, &set) == 0, "affinity");
  return result(sched_setaffinity(number("HR_OUTSIDER"), sizeof set, &set));
}
