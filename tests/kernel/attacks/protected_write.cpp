// An existing file below a protected name is opened for writing.
#include "attack.hpp"

int main() {
  return attack::result(open(attack::place("HR_WORKTREE", "/.git/HEAD").c_str(), O_WRONLY));
}
