// A character device is made (0:0, which the kernel lets everybody make).
#include "attack.hpp"

int main() {
  return attack::result(mknod(attack::place("HR_WORKTREE", "/src/device").c_str(), S_IFCHR | 0600, 0));
}
