// A file is made below a denied path.
#include "probe/attack.hpp"

HR_PROBE(denied_create) {
  return result(open(place("HR_DENIED", "/new"), O_WRONLY | O_CREAT, 0600));
}
