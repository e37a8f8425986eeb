// A listener outside with an abstract name is connected to.
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.hpp"

int main() {
  const std::string name = attack::place("HR_ABSTRACT");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) {
    return attack::result(-1);
  }
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return attack::result(connect(fd, reinterpret_cast<sockaddr*>(&address), size));
}
