// The same by statx.
#include "probe/attack.hpp"

HR_PROBE(statx_outside) {
  struct statx info {};
  return result(statx(AT_FDCWD, place("HR_OUTSIDE", "/secret"), 0, STATX_ALL, &info));
}
