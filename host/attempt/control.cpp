#include "attempt/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "attempt/names.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::attempt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t max_reply = 64u << 10;

Error control_error(const char* code, std::string detail, std::string remedy = "") {
  return Error{ErrorClass::failed, code, "ask supervisor", "control socket", std::move(detail),
               std::move(remedy)};
}

// Waits until the socket is ready for `events` or the deadline has passed.
Status wait_ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd watch{fd, events, 0};
    const int ready = left <= 0 ? 0 : ::poll(&watch, 1, static_cast<int>(left));
    if (ready > 0) {
      return {};
    }
    if (ready == 0) {
      return control_error("control-timeout", "the supervisor does not answer");
    }
    if (errno != EINTR) {
      return errno_error("ask supervisor", "control socket", errno);
    }
  }
}

Status send_all(int fd, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      HR_CHECK(wait_ready(fd, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return control_error("control-unreachable", "the supervisor closed the connection");
    }
  }
  return {};
}

Result<std::string> receive(int fd, std::size_t size, Clock::time_point deadline) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::recv(fd, bytes.data() + have, size - have, MSG_DONTWAIT);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      HR_CHECK(wait_ready(fd, POLLIN, deadline));
    } else if (got == 0 || errno != EINTR) {
      return control_error("control-unreachable", "the supervisor closed the connection");
    }
  }
  return bytes;
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Result<Fd> connect_socket(int attempt_dirfd, const char* name, Clock::time_point deadline) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return errno_error("make socket", name, errno);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Through our own descriptor: sun_path holds 108 bytes, an attempt directory may lie deeper.
  const std::string path = "/proc/self/fd/" + std::to_string(attempt_dirfd) + "/" + name;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN && errno != EINTR) {  // EAGAIN: the listener's queue is full
      return control_error("control-unreachable", "nobody listens: " + std::string(std::strerror(errno)),
                           "hitchrail runs recover, when the run does not end by itself");
    }
    if (Clock::now() >= deadline) {
      return control_error("control-timeout", "the supervisor takes no connection");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) {
    return control_error("control-unreachable", "somebody else listens there");
  }
  return fd;
}

Error refusal(std::uint32_t outcome) {
  switch (outcome) {
    case wire::control_bad_token:
      return control_error("control-refused", "the supervisor does not accept the token");
    case wire::control_runner_restarting:
      return control_error("runner-restarting", "the adapter's process is being started again",
                           "try again in a moment");
    case wire::control_too_late:
      return control_error("control-too-late", "the harness has exited");
    case wire::control_busy:
      return control_error("control-busy", "too many inputs wait for the adapter", "try again in a moment");
    default:
      return control_error("control-protocol", "the supervisor does not understand the request");
  }
}

}  // namespace

Result<Control> Control::connect(const Directory& directory, ControlSocket socket,
                                 std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const auto token = read_file_at(directory.fd(), token_name, 4096);
  if (token.has_error() || token.value().size() != wire::token_size) {
    return control_error("control-unreachable", "the attempt has no token any more");
  }
  HR_TRY(fd, connect_socket(directory.fd(), socket == ControlSocket::supervisor ? "s" : "c", deadline));
  wire::ControlHello hello{wire::control_magic, wire::control_version, {}};
  std::memcpy(hello.token, token.value().data(), wire::token_size);
  HR_CHECK(send_all(fd.get(), bytes_of(hello), deadline));
  return Control(std::move(fd), limit);
}

void Control::set_idempotency(const std::array<std::uint8_t, 16>& id) {
  idempotency_ = id;
  idempotency_set_ = true;
}

Result<wire::StatusPayload> Control::request(std::uint32_t type, std::string_view payload) {
  const auto deadline = Clock::now() + limit_;
  if (!idempotency_set_) {
    random_bytes(idempotency_.data(), idempotency_.size());
  }
  wire::ControlRequest request{type, static_cast<std::uint32_t>(payload.size()), {}};
  std::copy(idempotency_.begin(), idempotency_.end(), request.idempotency);
  HR_CHECK(send_all(fd_.get(), std::string(bytes_of(request)) + std::string(payload), deadline));
  HR_TRY(head, receive(fd_.get(), sizeof(wire::ControlReply), deadline));
  wire::ControlReply reply{};
  std::memcpy(&reply, head.data(), sizeof reply);
  if (reply.size > max_reply) {
    return control_error("control-protocol", "the answer is too long");
  }
  HR_TRY(body, receive(fd_.get(), reply.size, deadline));
  if (reply.outcome != wire::control_ok) {
    return refusal(reply.outcome);
  }
  wire::StatusPayload status{};  // an older supervisor's may be shorter, a newer one's longer
  std::memcpy(&status, body.data(), std::min(body.size(), sizeof status));
  return status;
}

Result<wire::StatusPayload> Control::status() {
  return request(wire::control_status, {});
}
Result<wire::StatusPayload> Control::stop() {
  return request(wire::control_stop, {});
}
Result<wire::StatusPayload> Control::kill() {
  return request(wire::control_kill, {});
}

Result<wire::StatusPayload> Control::input(std::uint32_t kind, std::string_view name, std::string_view text) {
  const wire::ControlInput head{kind, static_cast<std::uint32_t>(name.size()),
                                static_cast<std::uint32_t>(text.size()), 0};
  std::string payload(bytes_of(head));
  payload += name;
  payload += text;
  return request(wire::control_input, payload);
}

Result<AttemptStatus> stop_and_wait(const Directory& directory, bool kill, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  bool asked = false;
  for (;;) {
    HR_TRY(now, status(directory));
    if (!now.live()) {
      return now;
    }
    if (!asked) {
      auto control = Control::connect(directory, ControlSocket::supervisor);
      if (control.has_value()) {
        const auto answer = kill ? control.value().kill() : control.value().stop();
        asked = answer.has_value();
      }
    }
    if (Clock::now() >= deadline) {
      return Error{ErrorClass::failed,
                   "stop-timeout",
                   "stop run",
                   directory.id(),
                   "it has not ended in time",
                   "hitchrail runs stop --kill " + directory.id()};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace hitchrail::attempt
