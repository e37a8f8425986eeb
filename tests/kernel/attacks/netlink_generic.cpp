// A netlink socket of another family than routing is made.
#include <linux/netlink.h>
#include <sys/socket.h>

#include "attack.hpp"

int main() {
  return attack::result(socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC));
}
