// The working directory of a process outside is opened.
#include "probe/attack.hpp"

HR_PROBE(outsider_directory) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/cwd", number("HR_OUTSIDER"));
  return result(open(path, O_RDONLY | O_DIRECTORY));
}
