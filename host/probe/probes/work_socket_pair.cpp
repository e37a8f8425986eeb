// Two ends of a socket pair talk.
#include "probe/attack.hpp"

HR_PROBE(work_socket_pair) {
  int fds[2];
  char byte = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || write(fds[0], "x", 1) != 1) {
    return refused(errno);
  }
  return result(read(fds[1], &byte, 1));
}
