// A listener outside with a path is connected to.
#include "probe/attack.hpp"

HR_PROBE(pathname_socket) {
  return result(connect_unix(place("HR_OUTSIDE", "/socket"), false, SOCK_STREAM));
}
