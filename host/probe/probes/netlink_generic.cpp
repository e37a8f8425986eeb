// A generic netlink socket is made.
#include "probe/attack.hpp"

HR_PROBE(netlink_generic) {
  return result(socket(AF_NETLINK, SOCK_RAW, 16));
}
