// A directory is bound over another.
#include "probe/attack.hpp"

HR_PROBE(mount_bind) {
  return result(mount("/usr", place("HR_WORKTREE", "/src"), nullptr, MS_BIND, nullptr));
}
