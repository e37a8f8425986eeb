// A listener outside with an abstract name is connected to.
#include "probe/attack.hpp"

HR_PROBE(abstract_socket) {
  return result(connect_unix(place("HR_ABSTRACT"), true, SOCK_STREAM));
}
