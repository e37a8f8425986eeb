// A listener on the loopback address of the host is connected to.
#include "probe/attack.hpp"

HR_PROBE(tcp_loopback) {
  return result(connect_loopback(AF_INET, SOCK_STREAM, number("HR_PORT")));
}
