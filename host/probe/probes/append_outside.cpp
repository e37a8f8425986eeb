// A file outside is opened for appending.
#include "probe/attack.hpp"

HR_PROBE(append_outside) {
  return result(open(place("HR_OUTSIDE", "/secret"), O_WRONLY | O_APPEND));
}
