// A datagram socket outside with an abstract name is connected to.
#include "probe/attack.hpp"

HR_PROBE(abstract_datagram) {
  return result(connect_unix(place("HR_ABSTRACT_DATAGRAM"), true, SOCK_DGRAM));
}
