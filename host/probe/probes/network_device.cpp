// The device that makes network interfaces is opened.
#include "probe/attack.hpp"

HR_PROBE(network_device) {
  return result(open("/dev/net/tun", O_RDWR));
}
