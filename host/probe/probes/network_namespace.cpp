// A new network namespace is made.
#include "probe/attack.hpp"

HR_PROBE(network_namespace) {
  return result(unshare(CLONE_NEWNET));
}
