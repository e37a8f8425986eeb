// A hard link of a read-only file is made where it can be written.
#include "attack.hpp"

int main() {
  return attack::result(
      link(attack::place("HR_READABLE", "/file").c_str(), attack::place("HR_WORKTREE", "/src/hard").c_str()));
}
