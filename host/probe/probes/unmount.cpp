// A mount is taken away, and with it what it covered.
#include "probe/attack.hpp"

HR_PROBE(unmount) {
  return reached(umount2("/proc", MNT_DETACH));
}
