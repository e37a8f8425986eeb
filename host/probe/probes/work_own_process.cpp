// The program finds its own executable and descriptors in /proc.
#include "probe/attack.hpp"

HR_PROBE(work_own_process) {
  char path[4096];
  if (readlink("/proc/self/exe", path, sizeof path) < 0) {
    return refused(errno);
  }
  return result(open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
}
