// A process outside is seen in /proc.
#include "probe/attack.hpp"

HR_PROBE(outsider_listed) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/status", number("HR_OUTSIDER"));
  return result(open(path, O_RDONLY));
}
