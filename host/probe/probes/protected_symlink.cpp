// A protected name is made as a link to a directory of the run.
#include "probe/attack.hpp"

HR_PROBE(protected_symlink) {
  return result(symlink("src", place("HR_WORKTREE", "/.codex")));
}
