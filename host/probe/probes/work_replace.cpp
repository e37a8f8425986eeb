// A file at the top of the worktree is replaced, as editors do it.
#include "probe/attack.hpp"

HR_PROBE(work_replace) {
  const int fd = open(place("HR_WORKTREE", "/replacement"), O_WRONLY | O_CREAT, 0644);
  if (fd < 0) {
    return refused(errno);
  }
  return result(rename(place("HR_WORKTREE", "/replacement"), place("HR_WORKTREE", "/top.txt")));
}
