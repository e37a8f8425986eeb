// The times of a file outside are set.
#include "probe/attack.hpp"

HR_PROBE(utime_outside) {
  return result(utimensat(AT_FDCWD, place("HR_OUTSIDE", "/secret"), nullptr, 0));
}
