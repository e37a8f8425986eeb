// A socket of a family that is rarely looked at is made.
#include "probe/attack.hpp"

HR_PROBE(local_socket_family) {
  return result(socket(30 /* AF_TIPC */, SOCK_STREAM, 0));
}
