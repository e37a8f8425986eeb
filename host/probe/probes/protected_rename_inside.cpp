// A file written elsewhere is moved into .git as a hook.
#include "probe/attack.hpp"

HR_PROBE(protected_rename_inside) {
  return result(rename(place("HR_WORKTREE", "/src/main.c"), place("HR_WORKTREE", "/.git/hook")));
}
