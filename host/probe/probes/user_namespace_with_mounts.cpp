// A user namespace and a mount in it are made together.
#include "probe/attack.hpp"

HR_PROBE(user_namespace_with_mounts) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
    return refused(errno);
  }
  return result(mount("none", "/tmp", "tmpfs", 0, nullptr));
}
