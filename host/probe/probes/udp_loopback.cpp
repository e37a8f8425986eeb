// A datagram is sent to the loopback address of the host, and received there.
#include "probe/attack.hpp"

HR_PROBE(udp_loopback) {
  const int fd = connect_loopback(AF_INET, SOCK_DGRAM, number("HR_UDP_PORT"));
  if (fd < 0 || send(fd, "x", 1, 0) < 0) {
    return refused(errno);
  }
  usleep(1000);
  return result(send(fd, "x", 1, 0));
}
