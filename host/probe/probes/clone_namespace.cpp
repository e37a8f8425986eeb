// The same by clone.
#include "probe/attack.hpp"

HR_PROBE(clone_namespace) {
  const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    _exit(0);
  }
  return result(child);
}
