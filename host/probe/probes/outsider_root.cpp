// The file system is seen through a process outside.
#include "probe/attack.hpp"

HR_PROBE(outsider_root) {
  char path[4200];
  std::snprintf(path, sizeof path, "/proc/%d/root%s", number("HR_OUTSIDER"), place("HR_OUTSIDE", "/secret"));
  return result(open(path, O_RDONLY));
}
