// A file of a read-only root is read.
#include "probe/attack.hpp"

HR_PROBE(work_read_only_root) {
  return result(open(place("HR_READABLE", "/file"), O_RDONLY));
}
