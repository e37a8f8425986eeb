// A hard link of a denied file is made where it can be read.
#include "probe/attack.hpp"

HR_PROBE(denied_link) {
  return result(link(place("HR_DENIED", "/file"), place("HR_WORKTREE", "/src/hard")));
}
