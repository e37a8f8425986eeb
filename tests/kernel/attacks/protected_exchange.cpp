// A directory of the run is exchanged with the protected .git.
#include "attack.hpp"

int main() {
  const std::string made = attack::place("HR_WORKTREE", "/src/git");
  attack::need(mkdir(made.c_str(), 0755) == 0, "mkdir");
  return attack::result(renameat2(AT_FDCWD, made.c_str(), AT_FDCWD,
                                  attack::place("HR_WORKTREE", "/.git").c_str(), RENAME_EXCHANGE));
}
