// A link is made outside.
#include "probe/attack.hpp"

HR_PROBE(symlink_made_outside) {
  return result(symlink("x", place("HR_OUTSIDE", "/link")));
}
