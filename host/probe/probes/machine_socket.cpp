// A socket to the machine's host is made.
#include "probe/attack.hpp"

HR_PROBE(machine_socket) {
  return result(socket(40 /* AF_VSOCK */, SOCK_STREAM, 0));
}
