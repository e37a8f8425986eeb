// The mount namespace of another process is entered.
#include "probe/attack.hpp"

HR_PROBE(enter_namespace) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/ns/mnt", number("HR_PARENT"));
  const int fd = open(path, O_RDONLY);
  if (fd < 0) {
    return refused(errno);
  }
  return result(setns(fd, CLONE_NEWNS));
}
