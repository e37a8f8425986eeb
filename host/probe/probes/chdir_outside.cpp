// A directory outside becomes the working directory.
#include "probe/attack.hpp"

HR_PROBE(chdir_outside) {
  return result(chdir(place("HR_OUTSIDE")));
}
