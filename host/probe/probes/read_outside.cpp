// A file outside every granted root is opened for reading.
#include "probe/attack.hpp"

HR_PROBE(read_outside) {
  return result(open(place("HR_OUTSIDE", "/secret"), O_RDONLY));
}
