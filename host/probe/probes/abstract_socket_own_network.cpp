// The same where the network is the run's own.
#include "probe/attack.hpp"

HR_PROBE(abstract_socket_own_network) {
  return result(connect_unix(place("HR_ABSTRACT"), true, SOCK_STREAM));
}
