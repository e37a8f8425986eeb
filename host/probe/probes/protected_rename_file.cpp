// A file made under another name becomes a protected name.
#include "probe/attack.hpp"

HR_PROBE(protected_rename_file) {
  const int fd = open(place("HR_WORKTREE", "/src/file"), O_WRONLY | O_CREAT, 0644);
  HR_NEED(fd >= 0, "create");
  return result(rename(place("HR_WORKTREE", "/src/file"), place("HR_WORKTREE", "/.claude")));
}
