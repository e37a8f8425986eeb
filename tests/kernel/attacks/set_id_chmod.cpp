// A file of the run is made set-user-id by chmod.
#include "attack.hpp"

int main() {
  return attack::result(chmod(attack::place("HR_WORKTREE", "/src/main.c").c_str(), 04755));
}
