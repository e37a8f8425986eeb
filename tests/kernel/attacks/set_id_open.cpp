// A file is made set-user-id when it is opened.
#include "attack.hpp"

int main() {
  const int fd = open(attack::place("HR_WORKTREE", "/src/setid").c_str(), O_WRONLY | O_CREAT, 04755);
  return attack::result(fd);
}
