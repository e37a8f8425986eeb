// A socket to the kernel's ciphers is made.
#include "probe/attack.hpp"

HR_PROBE(crypto_socket) {
  return result(socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0));
}
