// The mode of a file outside is changed.
#include "probe/attack.hpp"

HR_PROBE(chmod_outside) {
  return result(chmod(place("HR_OUTSIDE", "/secret"), 0640));
}
