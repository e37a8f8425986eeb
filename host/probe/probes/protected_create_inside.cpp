// A new file is made below an existing protected name.
#include "probe/attack.hpp"

HR_PROBE(protected_create_inside) {
  return result(open(place("HR_WORKTREE", "/.git/config"), O_WRONLY | O_CREAT | O_EXCL, 0644));
}
