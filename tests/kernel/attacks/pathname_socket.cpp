// A listener outside with a path is connected to.
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.hpp"

int main() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, attack::place("HR_OUTSIDE", "/socket").c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) {
    return attack::result(-1);
  }
  return attack::result(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
}
