// A hard link and a symbolic link are made.
#include "probe/attack.hpp"

HR_PROBE(work_links) {
  if (link(place("HR_WORKTREE", "/src/main.c"), place("HR_WORKTREE", "/src/second")) < 0) {
    return refused(errno);
  }
  return result(symlink("main.c", place("HR_WORKTREE", "/src/pointer")));
}
