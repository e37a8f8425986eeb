// The worktree itself is moved away.
#include "attack.hpp"

int main() {
  const std::string tree = attack::place("HR_WORKTREE");
  return attack::result(rename(tree.c_str(), (tree + "-moved").c_str()));
}
