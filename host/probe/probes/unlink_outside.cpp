// A file outside is removed.
#include "probe/attack.hpp"

HR_PROBE(unlink_outside) {
  return result(unlink(place("HR_OUTSIDE", "/secret")));
}
