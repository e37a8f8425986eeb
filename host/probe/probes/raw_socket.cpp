// A raw IP socket is made.
#include "probe/attack.hpp"

HR_PROBE(raw_socket) {
  return result(socket(AF_INET, SOCK_RAW, 255));
}
