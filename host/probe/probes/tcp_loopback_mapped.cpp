// The same by an IPv6 socket and a mapped address.
#include "probe/attack.hpp"

HR_PROBE(tcp_loopback_mapped) {
  return result(connect_loopback(AF_INET6, SOCK_STREAM, number("HR_PORT")));
}
