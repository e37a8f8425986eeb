// The owner of a file outside is set.
#include "probe/attack.hpp"

HR_PROBE(chown_outside) {
  return result(chown(place("HR_OUTSIDE", "/secret"), getuid(), getgid()));
}
