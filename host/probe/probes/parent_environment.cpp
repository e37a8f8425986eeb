// Its environment is read.
#include "probe/attack.hpp"

HR_PROBE(parent_environment) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/environ", number("HR_PARENT"));
  return result(open(path, O_RDONLY));
}
