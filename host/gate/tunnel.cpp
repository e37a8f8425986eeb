#include "gate/tunnel.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hitchrail::gate {
namespace {

union AnyAddress {
  sockaddr any;
  sockaddr_in in;
  sockaddr_in6 in6;
};

socklen_t fill(AnyAddress& out, const Address& address, std::uint16_t port) {
  std::memset(&out, 0, sizeof out);
  if (is_ipv4(address)) {
    out.in.sin_family = AF_INET;
    out.in.sin_port = htons(port);
    out.in.sin_addr.s_addr = htonl(ipv4_of(address));
    return sizeof out.in;
  }
  out.in6.sin6_family = AF_INET6;
  out.in6.sin6_port = htons(port);
  std::memcpy(&out.in6.sin6_addr, address.data(), address.size());
  return sizeof out.in6;
}

bool same(const AnyAddress& found, const Address& address) {
  Address other{};
  if (found.any.sa_family == AF_INET) {
    other = mapped(ntohl(found.in.sin_addr.s_addr));
  } else {
    std::memcpy(other.data(), &found.in6.sin6_addr, other.size());
  }
  return other == address;
}

bool would_block() {
  return errno == EAGAIN || errno == EINTR;
}

// What could not be sent a moment ago; false on a broken connection.
bool send_pending(int to, Direction& direction, bool& moved) {
  while (direction.blocked()) {
    const ssize_t sent = send(to, direction.pending.data() + direction.written,
                              direction.pending.size() - direction.written, MSG_NOSIGNAL);
    if (sent < 0) {
      return would_block();
    }
    moved = true;
    direction.written += static_cast<std::size_t>(sent);
  }
  if (!direction.pending.empty()) {
    direction.pending = std::string();
    direction.written = 0;
  }
  return true;
}

}  // namespace

Pump pump(int from, int to, Direction& direction, std::vector<char>& scratch, std::size_t budget) {
  bool moved = false;
  if (!send_pending(to, direction, moved)) {
    return Pump::failed;
  }
  while (!direction.blocked() && !direction.ended && budget > 0) {
    const ssize_t got = recv(from, scratch.data(), scratch.size(), 0);
    if (got < 0) {
      if (!would_block()) {
        return Pump::failed;
      }
      break;
    }
    moved = true;
    if (got == 0) {
      direction.ended = true;
      break;
    }
    const auto size = static_cast<std::size_t>(got);
    budget -= size < budget ? size : budget;
    const ssize_t sent = send(to, scratch.data(), size, MSG_NOSIGNAL);
    if (sent < 0 && !would_block()) {
      return Pump::failed;
    }
    const std::size_t done = sent < 0 ? 0 : static_cast<std::size_t>(sent);
    if (done < size) {
      direction.pending.assign(scratch.data() + done, size - done);
    }
    if (size < scratch.size()) {
      break;  // what the socket had; one call less than asking again
    }
  }
  if (direction.ended && !direction.shut && !direction.blocked()) {
    direction.shut = true;
    shutdown(to, SHUT_WR);
  }
  return moved ? Pump::moved : Pump::idle;
}

int dial(const Address& address, std::uint16_t port) {
  AnyAddress target{};
  const socklen_t size = fill(target, address, port);
  const int fd = socket(target.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return -1;
  }
  no_delay(fd);
  if (connect(fd, &target.any, size) == 0 || errno == EINPROGRESS) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool peer_is(int socket, const Address& address, std::uint16_t port) {
  AnyAddress found{};
  socklen_t size = sizeof found;
  return getpeername(socket, &found.any, &size) == 0 && same(found, address) &&
         ntohs(found.any.sa_family == AF_INET ? found.in.sin_port : found.in6.sin6_port) == port;
}

bool is_own_address(const Address& address) {
  AnyAddress target{};
  const socklen_t size = fill(target, address, 9);
  const int fd = socket(target.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return true;
  }
  AnyAddress source{};
  socklen_t source_size = sizeof source;
  // No route: the dial will fail by itself.
  const bool own = connect(fd, &target.any, size) == 0 &&
                   (getsockname(fd, &source.any, &source_size) != 0 || same(source, address));
  close(fd);
  return own;
}

void no_delay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void reset(int socket) {
  const linger now{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(socket);
}

}  // namespace hitchrail::gate
