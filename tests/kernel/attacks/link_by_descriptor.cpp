// The same by descriptor, so that no path of the read-only root is named.
#include "attack.hpp"

int main() {
  const int fd = open(attack::place("HR_READABLE", "/file").c_str(), O_RDONLY);
  attack::need(fd >= 0, "open");
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return attack::result(linkat(AT_FDCWD, path.c_str(), AT_FDCWD,
                               attack::place("HR_WORKTREE", "/src/hard").c_str(), AT_SYMLINK_FOLLOW));
}
