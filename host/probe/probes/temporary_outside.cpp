// A file without a name is made outside.
#include "probe/attack.hpp"

HR_PROBE(temporary_outside) {
  return result(open(place("HR_OUTSIDE"), O_WRONLY | O_TMPFILE, 0600));
}
