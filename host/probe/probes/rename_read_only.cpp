// A file of a read-only root is moved into the worktree.
#include "probe/attack.hpp"

HR_PROBE(rename_read_only) {
  return result(rename(place("HR_READABLE", "/file"), place("HR_WORKTREE", "/src/moved")));
}
