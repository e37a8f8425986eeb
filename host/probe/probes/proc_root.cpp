// The file outside is reached through /proc/self/root.
#include "probe/attack.hpp"

HR_PROBE(proc_root) {
  char path[4200];
  std::snprintf(path, sizeof path, "/proc/self/root%s", place("HR_OUTSIDE", "/secret"));
  return result(open(path, O_RDONLY));
}
