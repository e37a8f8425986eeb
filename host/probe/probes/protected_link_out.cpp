// A file of .git is linked to where it can be written.
#include "probe/attack.hpp"

HR_PROBE(protected_link_out) {
  return result(link(place("HR_WORKTREE", "/.git/HEAD"), place("HR_WORKTREE", "/src/head")));
}
