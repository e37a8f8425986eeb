// The same relative to a directory.
#include "probe/attack.hpp"

HR_PROBE(set_id_openat) {
  return result(openat(AT_FDCWD, place("HR_WORKTREE", "/src/setid-openat"), O_WRONLY | O_CREAT, 04755));
}
