// A netlink socket for audit records is made.
#include "probe/attack.hpp"

HR_PROBE(netlink_audit) {
  return result(socket(AF_NETLINK, SOCK_RAW, 9));
}
