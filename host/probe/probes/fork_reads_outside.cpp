// A child does it.
#include "probe/attack.hpp"

HR_PROBE(fork_reads_outside) {
  return in_child([] { return result(open(place("HR_OUTSIDE", "/secret"), O_RDONLY)); });
}
