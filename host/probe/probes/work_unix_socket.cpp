// A socket of the run's own is listened on and connected to.
#include "probe/attack.hpp"

HR_PROBE(work_unix_socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/u", std::getenv("TMPDIR"));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 || listen(fd, 1) < 0) {
    return refused(errno);
  }
  return result(connect_unix(address.sun_path, false, SOCK_STREAM));
}
