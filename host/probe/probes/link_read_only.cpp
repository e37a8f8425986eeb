// A hard link of a read-only file is made where it can be written.
#include "probe/attack.hpp"

HR_PROBE(link_read_only) {
  return result(link(place("HR_READABLE", "/file"), place("HR_WORKTREE", "/src/hard")));
}
