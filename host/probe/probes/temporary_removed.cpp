// A file in the host's /tmp is removed.
#include "probe/attack.hpp"

HR_PROBE(temporary_removed) {
  return result(unlink(place("HR_TMP_FILE")));
}
