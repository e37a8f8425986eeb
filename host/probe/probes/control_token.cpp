// The token that controls the run is read.
#include "probe/attack.hpp"

HR_PROBE(control_token) {
  return result(open(place("HR_ATTEMPT", "/token"), O_RDONLY));
}
