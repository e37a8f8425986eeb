// A grandchild in a session of its own does it.
#include "probe/attack.hpp"

HR_PROBE(orphan_reads_outside) {
  return in_child([] {
    return in_child([] {
      setsid();
      return result(open(place("HR_OUTSIDE", "/secret"), O_RDONLY));
    });
  });
}
