// Something is mounted over /tmp.
#include "probe/attack.hpp"

HR_PROBE(mount_tmpfs) {
  return result(mount("none", "/tmp", "tmpfs", 0, nullptr));
}
