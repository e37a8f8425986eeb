// A new time namespace is made.
#include "probe/attack.hpp"

HR_PROBE(time_namespace) {
  return result(unshare(0x80 /* CLONE_NEWTIME */));
}
