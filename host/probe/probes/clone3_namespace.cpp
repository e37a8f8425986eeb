// The same by clone3, whose flags no filter can see.
#include <linux/sched.h>

#include "probe/attack.hpp"

HR_PROBE(clone3_namespace) {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER;
  arguments.exit_signal = SIGCHLD;
  const long child = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) {
    _exit(0);
  }
  return result(child);
}
