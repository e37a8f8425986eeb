// The run's temporary directory is written.
#include "probe/attack.hpp"

HR_PROBE(work_temporary) {
  return shell("echo text > \"$TMPDIR/file\"");
}
