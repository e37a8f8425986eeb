// A netlink socket that lists the sockets of others is made.
#include "probe/attack.hpp"

HR_PROBE(netlink_sockets) {
  return result(socket(AF_NETLINK, SOCK_RAW, 4));
}
