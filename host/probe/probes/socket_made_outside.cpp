// A socket is made outside.
#include "probe/attack.hpp"

HR_PROBE(socket_made_outside) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/n", place("HR_OUTSIDE"));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) {
    return refused(errno);
  }
  return result(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
}
