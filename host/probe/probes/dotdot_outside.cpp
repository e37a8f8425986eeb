// The file outside is reached by `..` from the worktree.
#include "probe/attack.hpp"

HR_PROBE(dotdot_outside) {
  return result(open(place("HR_WORKTREE", "/src/../../outside/secret"), O_RDONLY));
}
