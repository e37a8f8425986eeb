// A file outside is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(write_outside) {
  return result(open(place("HR_OUTSIDE", "/secret"), O_WRONLY));
}
