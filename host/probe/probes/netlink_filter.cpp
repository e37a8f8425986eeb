// A netlink socket for packet filters is made.
#include "probe/attack.hpp"

HR_PROBE(netlink_filter) {
  return result(socket(AF_NETLINK, SOCK_RAW, 12));
}
