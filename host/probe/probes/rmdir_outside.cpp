// A directory outside is removed.
#include "probe/attack.hpp"

HR_PROBE(rmdir_outside) {
  return result(rmdir(place("HR_OUTSIDE", "/empty")));
}
