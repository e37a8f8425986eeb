// The mode of a file of a read-only root is changed.
#include "probe/attack.hpp"

HR_PROBE(chmod_read_only) {
  return result(chmod(place("HR_READABLE", "/file"), 0640));
}
