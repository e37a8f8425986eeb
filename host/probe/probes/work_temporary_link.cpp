// A file without a name is made and linked into the worktree.
#include "probe/attack.hpp"

HR_PROBE(work_temporary_link) {
  const int fd = open(place("HR_WORKTREE", "/src"), O_RDWR | O_TMPFILE, 0644);
  if (fd < 0) {
    return refused(errno);
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return result(linkat(AT_FDCWD, path, AT_FDCWD, place("HR_WORKTREE", "/src/named"), AT_SYMLINK_FOLLOW));
}
