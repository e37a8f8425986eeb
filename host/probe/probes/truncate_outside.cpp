// A file outside is cut to nothing without being opened.
#include "probe/attack.hpp"

HR_PROBE(truncate_outside) {
  return result(truncate(place("HR_OUTSIDE", "/secret"), 0));
}
