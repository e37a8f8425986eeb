// What a process outside writes to is opened.
#include "probe/attack.hpp"

HR_PROBE(outsider_stream) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/1", number("HR_OUTSIDER"));
  return result(open(path, O_WRONLY | O_NONBLOCK));
}
