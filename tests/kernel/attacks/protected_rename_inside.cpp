// A file written elsewhere is moved into .git as a hook.
#include "attack.hpp"

int main() {
  return attack::result(rename(attack::place("HR_WORKTREE", "/src/main.c").c_str(),
                               attack::place("HR_WORKTREE", "/.git/hook").c_str()));
}
