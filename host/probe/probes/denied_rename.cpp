// A denied directory is moved to where it can be read.
#include "probe/attack.hpp"

HR_PROBE(denied_rename) {
  return result(rename(place("HR_DENIED"), place("HR_WORKTREE", "/src/denied")));
}
