// A child is started and waited for.
#include "probe/attack.hpp"

HR_PROBE(work_fork) {
  return in_child([] { return through(); });
}
