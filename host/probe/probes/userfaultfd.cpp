// Page faults are handled by the program itself.
#include "probe/attack.hpp"

HR_PROBE(userfaultfd) {
  return result(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}
