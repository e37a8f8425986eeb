// A descriptor that only names a file outside is made.
#include "probe/attack.hpp"

HR_PROBE(path_descriptor_outside) {
  return result(open(place("HR_OUTSIDE", "/secret"), O_PATH));
}
