// The same by clone3, whose flags no filter can see.
#include <linux/sched.h>

#include "attack.hpp"

int main() {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER;
  arguments.exit_signal = SIGCHLD;
  const long child = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) {
    _exit(0);
  }
  return attack::result(child);
}
