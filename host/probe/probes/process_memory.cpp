// The memory of a child is read by system call.
#include <sys/uio.h>

#include "probe/attack.hpp"

HR_PROBE(process_memory) {
  static char secret[8] = "secret";
  char copy[8] = {};
  iovec local{copy, sizeof copy};
  iovec remote{secret, sizeof secret};
  const pid_t child = fork();
  if (child == 0) {
    pause();
  }
  const ssize_t got = process_vm_readv(child, &local, 1, &remote, 1, 0);
  const int error = errno;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  errno = error;
  return result(got);
}
