// A file of the worktree is locked, mapped and written through the mapping.
#include <sys/file.h>
#include <sys/mman.h>

#include "probe/attack.hpp"

HR_PROBE(work_locks) {
  const int fd = open(place("HR_WORKTREE", "/src/main.c"), O_RDWR);
  if (fd < 0 || flock(fd, LOCK_EX) < 0) {
    return refused(errno);
  }
  void* bytes = mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return result(bytes == MAP_FAILED ? -1 : msync(bytes, 1, MS_SYNC));
}
