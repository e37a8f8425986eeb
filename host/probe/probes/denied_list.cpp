// A denied directory is listed.
#include "probe/attack.hpp"

HR_PROBE(denied_list) {
  return result(open(place("HR_DENIED"), O_RDONLY | O_DIRECTORY));
}
