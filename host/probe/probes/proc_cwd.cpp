// The file outside is reached through /proc/self/cwd.
#include "probe/attack.hpp"

HR_PROBE(proc_cwd) {
  HR_NEED(chdir(place("HR_WORKTREE")) == 0, "chdir");
  return result(open("/proc/self/cwd/../outside/secret", O_RDONLY));
}
