#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "init/init.hpp"

namespace hitchrail::init {
namespace {

int failure_pipe = -1;

void copy_text(char* out, std::size_t size, const char* text) {
  std::strncpy(out, text, size - 1);
  out[size - 1] = '\0';
}

}  // namespace

void send_message(wire::InitMessage& message, const int* fds, int fd_count) {
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(plan::max_listeners * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd_count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(static_cast<std::size_t>(fd_count) * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(static_cast<std::size_t>(fd_count) * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds, static_cast<std::size_t>(fd_count) * sizeof(int));
  }
  // A dead shim needs no report; PDEATHSIG or the closed socket ends this process.
  while (sendmsg(wire::init_socket, &header, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void fail(const char* step, int error_number, const char* detail) {
  if (failure_pipe >= 0) {
    Failure failure{};
    failure.error_number = error_number;
    copy_text(failure.step, sizeof failure.step, step);
    copy_text(failure.detail, sizeof failure.detail, detail);
    (void)!write(failure_pipe, &failure, sizeof failure);
    _exit(127);
  }
  wire::InitMessage message{};
  message.type = wire::init_failed;
  message.error_number = error_number;
  copy_text(message.step, sizeof message.step, step);
  copy_text(message.detail, sizeof message.detail, detail);
  send_message(message);
  _exit(127);
}

void fail_through(int pipe) {
  failure_pipe = pipe;
}

bool socket_alive() {
  pollfd entry{wire::init_socket, POLLIN, 0};
  return poll(&entry, 1, 0) >= 0 && (entry.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

}  // namespace hitchrail::init
