// The memory of a process outside is opened.
#include "probe/attack.hpp"

HR_PROBE(outsider_memory) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/mem", number("HR_OUTSIDER"));
  return result(open(path, O_RDWR));
}
