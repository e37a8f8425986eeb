// A file is copied by the kernel.
#include <sys/sendfile.h>

#include "probe/attack.hpp"

HR_PROBE(work_copy) {
  const int from = open(place("HR_READABLE", "/file"), O_RDONLY);
  const int to = open(place("HR_WORKTREE", "/src/copy"), O_WRONLY | O_CREAT, 0644);
  return from < 0 || to < 0 ? refused(errno) : result(sendfile(to, from, nullptr, 4));
}
