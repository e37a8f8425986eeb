// A new mount namespace is made.
#include "probe/attack.hpp"

HR_PROBE(mount_namespace) {
  return result(unshare(CLONE_NEWNS));
}
