// An existing file at the top of the worktree is written.
#include "probe/attack.hpp"

HR_PROBE(work_existing_file) {
  const int fd = open(place("HR_WORKTREE", "/top.txt"), O_WRONLY | O_APPEND);
  return fd < 0 ? refused(errno) : result(write(fd, "more\n", 5));
}
