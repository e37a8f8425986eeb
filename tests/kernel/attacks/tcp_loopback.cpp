// A listener on the loopback address of the host is connected to.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "attack.hpp"

int main() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(attack::number("HR_PORT")));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) {
    return attack::result(-1);
  }
  return attack::result(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
}
