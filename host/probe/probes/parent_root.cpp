// The file system is seen through it.
#include "probe/attack.hpp"

HR_PROBE(parent_root) {
  char path[4200];
  std::snprintf(path, sizeof path, "/proc/%d/root%s", number("HR_PARENT"), place("HR_OUTSIDE", "/secret"));
  return result(open(path, O_RDONLY));
}
