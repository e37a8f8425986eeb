// A file is made in a read-only root.
#include "probe/attack.hpp"

HR_PROBE(create_read_only) {
  return result(open(place("HR_READABLE", "/new"), O_WRONLY | O_CREAT | O_EXCL, 0600));
}
