// The mode of a denied directory is changed.
#include "probe/attack.hpp"

HR_PROBE(denied_chmod) {
  return result(chmod(place("HR_DENIED"), 0755));
}
