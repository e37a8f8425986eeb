// A port that the host uses is taken: its network is the program's.
#include <netinet/in.h>

#include "probe/attack.hpp"

HR_PROBE(same_network) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) {
    return refused(errno);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<in_port_t>(number("HR_UDP_PORT")));
  const int bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  return bound < 0 && errno == EADDRINUSE ? through() : bound == 0 ? without_effect() : refused(errno);
}
