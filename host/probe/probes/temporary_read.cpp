// A file in the host's /tmp is read.
#include "probe/attack.hpp"

HR_PROBE(temporary_read) {
  return result(open(place("HR_TMP_FILE"), O_RDONLY));
}
