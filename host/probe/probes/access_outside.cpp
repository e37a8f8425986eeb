// It is asked whether a file outside exists.
#include "probe/attack.hpp"

HR_PROBE(access_outside) {
  return result(access(place("HR_OUTSIDE", "/secret"), F_OK));
}
