// Programs of PATH run in a pipeline.
#include "probe/attack.hpp"

HR_PROBE(work_tools) {
  return shell("printf 'b\\na\\n' | sort | head -n 1 | grep -q a && ls \"$HR_WORKTREE\" > /dev/null");
}
