// A file of the worktree is made, written, read back, renamed and removed.
#include "probe/attack.hpp"

HR_PROBE(work_files) {
  const int fd = open(place("HR_WORKTREE", "/src/work"), O_RDWR | O_CREAT | O_EXCL, 0644);
  if (fd < 0 || write(fd, "text", 4) != 4 || lseek(fd, 0, SEEK_SET) != 0) {
    return refused(errno);
  }
  char text[8];
  HR_NEED(read(fd, text, sizeof text) == 4, "read");
  if (rename(place("HR_WORKTREE", "/src/work"), place("HR_WORKTREE", "/src/done")) < 0) {
    return refused(errno);
  }
  return result(unlink(place("HR_WORKTREE", "/src/done")));
}
