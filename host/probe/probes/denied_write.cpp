// A file below a denied path is written.
#include "probe/attack.hpp"

HR_PROBE(denied_write) {
  return result(open(place("HR_DENIED", "/file"), O_WRONLY));
}
