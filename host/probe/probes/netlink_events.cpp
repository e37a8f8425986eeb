// A netlink socket for device events is made.
#include "probe/attack.hpp"

HR_PROBE(netlink_events) {
  return result(socket(AF_NETLINK, SOCK_RAW, 15));
}
