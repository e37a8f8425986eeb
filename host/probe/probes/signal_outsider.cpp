// A process outside is sent a signal.
#include "probe/attack.hpp"

HR_PROBE(signal_outsider) {
  return result(kill(number("HR_OUTSIDER"), SIGCONT));
}
