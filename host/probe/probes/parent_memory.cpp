// The memory of the init that started the run is opened.
#include "probe/attack.hpp"

HR_PROBE(parent_memory) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/mem", number("HR_PARENT"));
  return result(open(path, O_RDWR));
}
