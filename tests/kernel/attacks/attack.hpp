#pragma once
// One attack a program: main() tries one thing once and says whether it worked. The same program is run
// without a boundary (the positive control), inside, and below each layer alone. Exit 0 and "through", or
// exit 1 and "refused ERRNO". The environment names what there is to attack: HR_WORKTREE, HR_OUTSIDE,
// HR_READABLE, HR_OUTSIDER, HR_ABSTRACT, HR_PORT, HR_SHM.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace attack {

inline std::string place(const char* variable, const char* rest = "") {
  const char* value = std::getenv(variable);
  if (value == nullptr) {
    std::printf("broken %s is not set\n", variable);
    std::exit(2);
  }
  return std::string(value) + rest;
}
inline int number(const char* variable) {
  return std::atoi(place(variable).c_str());
}

inline int verdict(bool worked) {
  if (worked) {
    std::printf("through\n");
    return 0;
  }
  std::printf("refused %s\n", strerrorname_np(errno));
  return 1;
}
// The result of a system call: negative is refused.
inline int result(long value) {
  return verdict(value >= 0);
}
// For what had to work before the attack itself.
inline void need(bool worked, const char* what) {
  if (!worked) {
    std::printf("broken %s: %s\n", what, strerrorname_np(errno));
    std::exit(2);
  }
}

}  // namespace attack
