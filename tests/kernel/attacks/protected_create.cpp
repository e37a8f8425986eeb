// A protected name that did not exist is made and filled.
#include "attack.hpp"

int main() {
  const std::string name = attack::place("HR_WORKTREE", "/.agents");
  if (mkdir(name.c_str(), 0755) < 0 && errno != EEXIST) {
    return attack::result(-1);
  }
  return attack::result(open((name + "/config").c_str(), O_WRONLY | O_CREAT, 0644));
}
