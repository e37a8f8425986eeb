// A directory is made and removed.
#include "probe/attack.hpp"

HR_PROBE(work_directories) {
  if (mkdir(place("HR_WORKTREE", "/src/folder"), 0755) < 0) {
    return refused(errno);
  }
  return result(rmdir(place("HR_WORKTREE", "/src/folder")));
}
