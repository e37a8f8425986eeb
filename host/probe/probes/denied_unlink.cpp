// A denied file is removed.
#include "probe/attack.hpp"

HR_PROBE(denied_unlink) {
  return result(unlink(place("HR_DENIED", "/file")));
}
