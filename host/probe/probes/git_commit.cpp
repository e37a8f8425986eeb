// git adds, commits and shows the commit.
#include "probe/attack.hpp"

HR_PROBE(git_commit) {
  return shell(
      "cd \"$HR_WORKTREE\" && git add src/main.c && git -c user.name=p -c user.email=p@x commit -q -m probe "
      "-- src/main.c"
      " && git log -1 --format=%s | grep -qx probe");
}
