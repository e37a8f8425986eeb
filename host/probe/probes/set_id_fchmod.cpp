// A file of the run is made set-user-id by its descriptor.
#include "probe/attack.hpp"

HR_PROBE(set_id_fchmod) {
  const int fd = open(place("HR_WORKTREE", "/src/main.c"), O_RDONLY);
  HR_NEED(fd >= 0, "open");
  return result(fchmod(fd, 04755));
}
