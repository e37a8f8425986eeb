// The same by clone.
#include <sched.h>

#include "attack.hpp"

int main() {
  const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    _exit(0);
  }
  return attack::result(child);
}
