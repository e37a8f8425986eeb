// A detached copy of a mount is made.
#include "probe/attack.hpp"

HR_PROBE(open_tree) {
  return result(syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}
