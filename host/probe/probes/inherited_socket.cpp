// A socket that the launcher held open is still open.
#include "probe/attack.hpp"

HR_PROBE(inherited_socket) {
  return result(fcntl(number("HR_SOCKET_FD"), F_GETFD));
}
