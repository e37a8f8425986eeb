// A file of a read-only root is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(write_read_only) {
  return result(open(place("HR_READABLE", "/file"), O_WRONLY));
}
