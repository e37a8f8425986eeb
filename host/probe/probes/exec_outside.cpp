// A program outside is executed.
#include "probe/attack.hpp"

HR_PROBE(exec_outside) {
  return execute(place("HR_OUTSIDE", "/program"));
}
