#pragma once
// Proof that a descriptor is the listening socket that was asked for: a TCP socket that listens, on that
// address and port, in another network namespace than our own. C only, for the static shim too.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "gate/wire.hpp"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace hitchrail::gate {

// false where the kernel cannot say (before Linux 5.14).
inline bool netns_cookie(int socket, std::uint64_t& cookie) {
  socklen_t size = sizeof cookie;
  return getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0;
}
inline bool own_netns_cookie(std::uint64_t& cookie) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool known = fd >= 0 && netns_cookie(fd, cookie);
  if (fd >= 0) {
    ::close(fd);
  }
  return known;
}

// nullptr when it is; else what is wrong.
inline const char* wrong_listener(int fd, const gatewire::Listener& wanted, std::uint64_t own_cookie) {
  int value = 0;
  socklen_t size = sizeof value;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) != 0 || value != 1) {
    return "it does not listen";
  }
  size = sizeof value;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size) != 0 || value != SOCK_STREAM) {
    return "it is no stream socket";
  }
  std::uint64_t cookie = 0;
  if (!netns_cookie(fd, cookie)) {
    return "this kernel cannot tell network namespaces apart";
  }
  if (cookie == own_cookie) {
    return "it belongs to the host's network";
  }
  sockaddr_storage address{};
  size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "it has no name";
  }
  std::uint8_t found[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::uint16_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    std::memcpy(found + 12, &in.sin_addr, 4);
    port = ntohs(in.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
    std::memcpy(found, &in6.sin6_addr, 16);
    port = ntohs(in6.sin6_port);
  }
  return std::memcmp(found, wanted.address, 16) == 0 && port == wanted.port ? nullptr
                                                                            : "it listens somewhere else";
}

}  // namespace hitchrail::gate
