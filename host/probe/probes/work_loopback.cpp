// A loopback port of the run's own is listened on and connected to.
#include <netinet/in.h>

#include "probe/attack.hpp"

HR_PROBE(work_loopback) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) < 0 || listen(fd, 1) < 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) < 0) {
    return refused(errno);
  }
  return result(connect_loopback(AF_INET, SOCK_STREAM, ntohs(address.sin_port)));
}
