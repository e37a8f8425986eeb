// Page faults are handled by the program itself.
#include "attack.hpp"

int main() {
  return attack::result(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}
