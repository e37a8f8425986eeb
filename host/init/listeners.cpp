// The network namespace of a run: its loopback device, and the sockets that are its only way out.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "init/init.hpp"

namespace hitchrail::init {
namespace {

constexpr int backlog = 4096;  // the kernel cuts it to net.core.somaxconn

bool is_ipv4(const plan::Listener& listener) {
  static const std::uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(listener.address, prefix, sizeof prefix) == 0;
}

bool on_loopback_already(const plan::Listener& listener) {
  static const std::uint8_t one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return is_ipv4(listener) ? listener.address[12] == 127 : std::memcmp(listener.address, one, 16) == 0;
}

// RTM_NEWADDR on the loopback device, for this one address alone. (The older ioctl would make the address's
// whole class local.)
void add_address(const plan::Listener& listener) {
  struct {
    nlmsghdr header;
    ifaddrmsg address;
    rtattr attribute;
    std::uint8_t bytes[16];
  } request{};
  const bool v4 = is_ipv4(listener);
  const std::size_t size = v4 ? 4 : 16;
  request.header.nlmsg_len = static_cast<std::uint32_t>(offsetof(decltype(request), bytes) + size);
  request.header.nlmsg_type = RTM_NEWADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
  request.address.ifa_family = v4 ? AF_INET : AF_INET6;
  request.address.ifa_prefixlen = v4 ? 32 : 128;
  // Usable at once: else the kernel looks for another owner first, even on this device.
  request.address.ifa_flags = v4 ? 0 : IFA_F_NODAD;
  request.address.ifa_scope = RT_SCOPE_HOST;
  request.address.ifa_index = 1;  // the loopback device is the first of every namespace
  request.attribute.rta_type = IFA_LOCAL;
  request.attribute.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
  std::memcpy(request.bytes, listener.address + (v4 ? 12 : 0), size);
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0 || send(fd, &request, request.header.nlmsg_len, 0) < 0) {
    fail("listener-address", errno);
  }
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[256];
  } answer{};
  const ssize_t got = recv(fd, &answer, sizeof answer, 0);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(int)) || answer.header.nlmsg_type != NLMSG_ERROR) {
    fail("listener-address", got < 0 ? errno : EPROTO);
  }
  if (answer.error.error != 0 && answer.error.error != -EEXIST) {  // two relays of one address
    fail("listener-address", -answer.error.error);
  }
  close(fd);
}

int listen_on(const plan::Listener& listener) {
  const bool v4 = is_ipv4(listener);
  const int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    fail("listener", errno);
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(listener.port);
  std::memcpy(&in.sin_addr, listener.address + 12, 4);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(listener.port);
  std::memcpy(&in6.sin6_addr, listener.address, 16);
  const int only = 1;
  const bool bound = v4 ? bind(fd, reinterpret_cast<const sockaddr*>(&in), sizeof in) == 0
                        : setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) == 0 &&
                              bind(fd, reinterpret_cast<const sockaddr*>(&in6), sizeof in6) == 0;
  if (!bound || listen(fd, backlog) < 0) {
    fail("listener", errno);
  }
  return fd;
}

}  // namespace

void loopback_up() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    fail("loopback", errno);
  }
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (ioctl(fd, SIOCSIFFLAGS, &request) < 0) {
    fail("loopback", errno);
  }
  close(fd);
}

void hand_over_listeners(const Plan& plan) {
  const plan::Array& list = plan.header->listeners;
  if (list.count == 0) {
    return;
  }
  const auto* listeners = plan.items<plan::Listener>(list);
  int fds[plan::max_listeners];
  for (std::uint32_t i = 0; i < list.count; ++i) {
    if (!on_loopback_already(listeners[i])) {
      add_address(listeners[i]);
    }
    fds[i] = listen_on(listeners[i]);
  }
  wire::InitMessage message{};
  message.type = wire::init_listeners;
  send_message(message, fds, static_cast<int>(list.count));
  for (std::uint32_t i = 0; i < list.count; ++i) {
    close(fds[i]);
  }
  wire::InitReply reply{};
  ssize_t got = 0;
  while ((got = recv(wire::init_socket, &reply, sizeof reply, 0)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof reply) || reply.type != wire::reply_listeners_taken) {
    fail("listener-refused", got < 0 ? errno : EPROTO);
  }
}

}  // namespace hitchrail::init
