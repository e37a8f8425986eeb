// A process outside is made slower.
#include <sys/resource.h>

#include "probe/attack.hpp"

HR_PROBE(priority_of_outsider) {
  return result(setpriority(PRIO_PROCESS, static_cast<id_t>(number("HR_OUTSIDER")), 1));
}
