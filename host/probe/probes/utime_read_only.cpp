// The times of a file of a read-only root are set.
#include "probe/attack.hpp"

HR_PROBE(utime_read_only) {
  return result(utimensat(AT_FDCWD, place("HR_READABLE", "/file"), nullptr, 0));
}
