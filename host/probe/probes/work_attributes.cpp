// Mode and times of a file of the worktree are set.
#include "probe/attack.hpp"

HR_PROBE(work_attributes) {
  if (chmod(place("HR_WORKTREE", "/src/main.c"), 0755) < 0) {
    return refused(errno);
  }
  return result(utimensat(AT_FDCWD, place("HR_WORKTREE", "/src/main.c"), nullptr, 0));
}
