// A link made in the worktree points outside and is followed.
#include "attack.hpp"

int main() {
  const std::string link = attack::place("HR_WORKTREE", "/src/link");
  attack::need(symlink(attack::place("HR_OUTSIDE", "/secret").c_str(), link.c_str()) == 0, "symlink");
  return attack::result(open(link.c_str(), O_RDONLY));
}
