// A socket that sees every packet is made.
#include "probe/attack.hpp"

HR_PROBE(packet_socket) {
  return result(socket(AF_PACKET, SOCK_RAW, 0));
}
