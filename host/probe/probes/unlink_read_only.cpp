// A file of a read-only root is removed.
#include "probe/attack.hpp"

HR_PROBE(unlink_read_only) {
  return result(unlink(place("HR_READABLE", "/file")));
}
