// Something is mounted over /tmp.
#include <sys/mount.h>

#include "attack.hpp"

int main() {
  const int mounted = mount("none", "/tmp", "tmpfs", 0, nullptr);
  if (mounted == 0) {
    umount2("/tmp", MNT_DETACH);
  }
  return attack::result(mounted);
}
