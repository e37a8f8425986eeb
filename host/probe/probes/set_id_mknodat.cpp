// The same relative to a directory.
#include "probe/attack.hpp"

HR_PROBE(set_id_mknodat) {
  return result(mknodat(AT_FDCWD, place("HR_WORKTREE", "/src/setid-mknodat"), S_IFREG | 04755, 0));
}
