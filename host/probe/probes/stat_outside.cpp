// The size and times of a file outside are looked at.
#include "probe/attack.hpp"

HR_PROBE(stat_outside) {
  struct stat info {};
  return result(stat(place("HR_OUTSIDE", "/secret"), &info));
}
