// The run's home is written.
#include "probe/attack.hpp"

HR_PROBE(work_home) {
  return shell("echo text > \"$HOME/file\"");
}
