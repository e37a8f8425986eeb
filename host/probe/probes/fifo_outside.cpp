// A FIFO is made outside.
#include "probe/attack.hpp"

HR_PROBE(fifo_outside) {
  return result(mkfifo(place("HR_OUTSIDE", "/fifo"), 0600));
}
