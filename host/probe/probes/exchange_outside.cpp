// A file of the run is exchanged with one outside.
#include "probe/attack.hpp"

HR_PROBE(exchange_outside) {
  return result(renameat2(AT_FDCWD, place("HR_WORKTREE", "/src/main.c"), AT_FDCWD,
                          place("HR_OUTSIDE", "/secret"), RENAME_EXCHANGE));
}
