// A kernel setting of the network is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(network_setting) {
  return result(open("/proc/sys/net/ipv4/ip_forward", O_WRONLY));
}
