// A datagram socket outside with a path is connected to.
#include "probe/attack.hpp"

HR_PROBE(pathname_datagram) {
  return result(connect_unix(place("HR_OUTSIDE", "/datagram"), false, SOCK_DGRAM));
}
