// A performance counter of the program itself is opened.
#include <linux/perf_event.h>

#include "probe/attack.hpp"

HR_PROBE(perf_event) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.exclude_kernel = attributes.exclude_hv = 1;
  return result(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}
