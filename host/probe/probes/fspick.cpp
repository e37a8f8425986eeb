// A mounted file system is picked to be changed.
#include "probe/attack.hpp"

HR_PROBE(fspick) {
  return result(syscall(SYS_fspick, AT_FDCWD, "/proc", 0));
}
