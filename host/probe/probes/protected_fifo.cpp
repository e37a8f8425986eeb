// A protected name that did not exist is made as a FIFO.
#include "probe/attack.hpp"

HR_PROBE(protected_fifo) {
  return result(mkfifo(place("HR_WORKTREE", "/.codex"), 0644));
}
