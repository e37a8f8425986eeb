// The environment of a process outside is read.
#include "probe/attack.hpp"

HR_PROBE(outsider_environment) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/environ", number("HR_OUTSIDER"));
  return result(open(path, O_RDONLY));
}
