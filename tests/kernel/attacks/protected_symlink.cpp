// A protected name is made as a link to a directory of the run.
#include "attack.hpp"

int main() {
  return attack::result(symlink("src", attack::place("HR_WORKTREE", "/.codex").c_str()));
}
