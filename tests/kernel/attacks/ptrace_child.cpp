// A child of the program lets itself be traced.
#include <sys/ptrace.h>

#include "attack.hpp"

int main() {
  const pid_t child = fork();
  if (child == 0) {
    _exit(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  errno = WEXITSTATUS(status);
  return attack::verdict(WIFEXITED(status) && errno == 0);
}
