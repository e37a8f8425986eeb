// A detached copy of a mount is made.
#include <linux/mount.h>

#include "attack.hpp"

int main() {
  return attack::result(syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}
