// A file of the run is linked into .git.
#include "attack.hpp"

int main() {
  return attack::result(link(attack::place("HR_WORKTREE", "/src/main.c").c_str(),
                             attack::place("HR_WORKTREE", "/.git/linked").c_str()));
}
