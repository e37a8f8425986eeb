// A new file is made outside.
#include "probe/attack.hpp"

HR_PROBE(create_outside) {
  return result(open(place("HR_OUTSIDE", "/new"), O_WRONLY | O_CREAT | O_EXCL, 0600));
}
