// The socket that controls the run is connected to.
#include "probe/attack.hpp"

HR_PROBE(control_socket) {
  return result(connect_unix(place("HR_ATTEMPT", "/s"), false, SOCK_STREAM));
}
