// A protected name that did not exist is made as a socket.
#include "probe/attack.hpp"

HR_PROBE(protected_socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  HR_NEED(chdir(place("HR_WORKTREE")) == 0, "chdir");
  std::strcpy(address.sun_path, ".claude");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) {
    return refused(errno);
  }
  return result(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
}
