// It is sent a signal with a value.
#include "probe/attack.hpp"

HR_PROBE(signal_queued_outsider) {
  return result(sigqueue(number("HR_OUTSIDER"), SIGCONT, sigval{}));
}
