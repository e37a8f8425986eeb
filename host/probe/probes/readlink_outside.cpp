// A link outside is read.
#include "probe/attack.hpp"

HR_PROBE(readlink_outside) {
  char text[256];
  return result(readlink(place("HR_OUTSIDE", "/pointer"), text, sizeof text));
}
