// A directory made under another name becomes a protected name.
#include "attack.hpp"

int main() {
  const std::string made = attack::place("HR_WORKTREE", "/src/claude");
  attack::need(mkdir(made.c_str(), 0755) == 0, "mkdir");
  return attack::result(rename(made.c_str(), attack::place("HR_WORKTREE", "/.claude").c_str()));
}
