// Internet sockets and the routing table can be used.
#include "probe/attack.hpp"

HR_PROBE(work_internet_socket) {
  if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0) {
    return refused(errno);
  }
  return result(socket(AF_NETLINK, SOCK_RAW, 0));
}
