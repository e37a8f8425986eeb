// A directory is made outside.
#include "probe/attack.hpp"

HR_PROBE(mkdir_outside) {
  return result(mkdir(place("HR_OUTSIDE", "/new-directory"), 0700));
}
