// git looks at the worktree.
#include "probe/attack.hpp"

HR_PROBE(git_status) {
  return shell("cd \"$HR_WORKTREE\" && git status --porcelain > /dev/null");
}
