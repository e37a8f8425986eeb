// A file below a denied path is read.
#include "probe/attack.hpp"

HR_PROBE(denied_read) {
  return result(open(place("HR_DENIED", "/file"), O_RDONLY));
}
