// A protected name that did not exist is made as a file.
#include "probe/attack.hpp"

HR_PROBE(protected_file) {
  return result(open(place("HR_WORKTREE", "/.codex"), O_WRONLY | O_CREAT | O_EXCL, 0644));
}
