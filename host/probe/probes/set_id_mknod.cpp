// A set-user-id file is made by mknod.
#include "probe/attack.hpp"

HR_PROBE(set_id_mknod) {
  return result(syscall(SYS_mknod, place("HR_WORKTREE", "/src/setid-mknod"), S_IFREG | 04755, 0));
}
