// The two sockets. `s` always answers; `c` hands inputs to the living runner. Each connection proves the
// token first.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::int64_t slow_limit = 2000;  // to prove itself, to finish a request, to take an answer
constexpr std::int64_t idle_limit = 60000;
constexpr std::uint32_t max_request = (1u << 20) + 4096;
constexpr std::uint64_t max_waiting = 8u << 20;  // bytes of inputs not yet committed

// A path through our own descriptor: sun_path holds 108 bytes, an attempt directory may be deeper.
void socket_path(sockaddr_un& address, char name) {
  address = sockaddr_un{};
  address.sun_family = AF_UNIX;
  char* path = address.sun_path;
  memcpy(path, "/proc/self/fd/", 14);
  const std::size_t n = format_number(path + 14, static_cast<std::uint64_t>(shim_attempt));
  path[14 + n] = '/';
  path[15 + n] = name;
}

int open_listener(char name) {
  const char file[2] = {name, 0};
  if (unlinkat(shim_attempt, file, 0) != 0 && errno != ENOENT) {
    return -1;
  }
  sockaddr_un address{};
  socket_path(address, name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const mode_t before = umask(0177);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, 16) != 0) {
    close_fd(fd);
  }
  umask(before);
  return fd;
}

void drop_client(Client& client) {
  if (client.fd >= 0) {
    unwatch(client.fd);
    close_fd(client.fd);
  }
  client.in.clear();
  client.out.clear();
  client.proven = client.closing = false;
}

bool same_token(const std::uint8_t* given) {
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < token_size; ++i) {
    difference = static_cast<std::uint8_t>(difference | (given[i] ^ g.token[i]));
  }
  return difference == 0;
}

void fill_status(StatusPayload& status) {
  status.phase = g.phase;
  status.runner_restarts = g.restarts;
  status.runner_pid = g.runner.pid;
  status.leader_pid = g.leader_known ? 0 : g.leader_pid;
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    status.ring_pending[i] = g.streams[i].end - g.streams[i].mapped;
  }
  status.started_unix_ms = g.started_ms;
}

void answer(Client& client, ControlOutcome outcome, std::uint64_t input) {
  ControlReply reply{};
  reply.outcome = outcome;
  StatusPayload status{};
  fill_status(status);
  status.input_id = input;
  reply.size = client.proven ? static_cast<std::uint32_t>(sizeof status) : 0;
  if (!client.out.append(&reply, sizeof reply) || !client.out.append(&status, reply.size)) {
    client.closing = true;
  }
}

bool input_valid(std::uint32_t type, const unsigned char* payload, std::uint32_t size) {
  if (type == control_input) {
    ControlInput head{};
    if (size < sizeof head) {
      return false;
    }
    memcpy(&head, payload, sizeof head);
    return static_cast<std::uint64_t>(head.name_size) + head.text_size == size - sizeof head;
  }
  DecisionInput head{};
  if (size < sizeof head) {
    return false;
  }
  memcpy(&head, payload, sizeof head);
  return static_cast<std::uint64_t>(head.id_size) + head.answer_size == size - sizeof head;
}

ControlOutcome take_input(std::uint32_t type, const unsigned char* payload, std::uint32_t size,
                          std::uint64_t& input) {
  if (!input_valid(type, payload, size)) {
    return control_bad_request;
  }
  if (g.leader_known) {
    return control_too_late;
  }
  if (g.runner.pid == 0) {
    return control_runner_restarting;
  }
  if (g.log.payload_bytes + size > max_waiting) {
    return control_busy;
  }
  input = log_input(type == control_input ? input_control : input_decision, payload, size, nullptr, 0);
  return input != 0 ? control_ok : control_busy;
}

ControlOutcome perform(const Client& client, const ControlRequest& request, const unsigned char* payload,
                       std::uint64_t& input) {
  const bool on_c = request.type == control_input || request.type == control_decision;
  if (on_c != client.control) {
    return control_bad_request;
  }
  switch (request.type) {
    case control_status:
      return control_ok;
    case control_stop:
      if (g.stop_reason == stop_none) {
        g.stop_reason = stop_asked;
      }
      raise_event(event_stop);
      return control_ok;
    case control_kill:
      if (!g.leader_known) {
        g.stop_reason = stop_kill;
      }
      raise_event(event_kill);
      return control_ok;
    case control_input:
    case control_decision:
      return take_input(request.type, payload, request.size, input);
    default:
      return control_bad_request;
  }
}

bool nameless(const std::uint8_t* id) {
  std::uint8_t any = 0;
  for (int i = 0; i < 16; ++i) {
    any = static_cast<std::uint8_t>(any | id[i]);
  }
  return any == 0;
}

void handle(Client& client, const ControlRequest& request, const unsigned char* payload) {
  const bool remember = request.type != control_status && !nameless(request.idempotency);
  if (remember) {
    for (const Remembered& old : g.remembered) {
      if (old.outcome != 0 && memcmp(old.id, request.idempotency, sizeof old.id) == 0) {
        answer(client, static_cast<ControlOutcome>(old.outcome), old.input);
        return;
      }
    }
  }
  std::uint64_t input = 0;
  const ControlOutcome outcome = perform(client, request, payload, input);
  // Only what was taken is remembered: "not now" must be askable again.
  if (remember && outcome == control_ok) {
    Remembered& slot = g.remembered[g.remembered_next++ % (sizeof g.remembered / sizeof g.remembered[0])];
    memcpy(slot.id, request.idempotency, sizeof slot.id);
    slot.outcome = outcome;
    slot.input = input;
  }
  answer(client, outcome, input);
}

void consume_requests(Client& client) {
  while (!client.closing) {
    if (!client.proven) {
      ControlHello hello{};
      if (client.in.size() < sizeof hello) {
        return;
      }
      memcpy(&hello, client.in.data(), sizeof hello);
      client.in.consume(sizeof hello);
      if (hello.magic != control_magic || hello.version != control_version) {
        answer(client, control_bad_request, 0);
        client.closing = true;
      } else if (!same_token(hello.token)) {
        answer(client, control_bad_token, 0);
        client.closing = true;
      } else {
        client.proven = true;
      }
      continue;
    }
    ControlRequest request{};
    if (client.in.size() < sizeof request) {
      return;
    }
    memcpy(&request, client.in.data(), sizeof request);
    if (request.size > max_request) {
      answer(client, control_bad_request, 0);
      client.closing = true;
      return;
    }
    if (client.in.size() < sizeof request + request.size) {
      return;
    }
    handle(client, request, client.in.data() + sizeof request);
    client.in.consume(sizeof request + request.size);
  }
}

void flush(std::size_t index) {
  Client& client = g.clients[index];
  while (client.out.size() > 0) {
    const ssize_t n = send(client.fd, client.out.data(), client.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      watch(client.fd, watch_client, static_cast<std::uint32_t>(index),
            EPOLLOUT);  // no more requests meanwhile
      return;
    }
    if (n < 0) {
      drop_client(client);
      return;
    }
    client.out.consume(static_cast<std::size_t>(n));
  }
  if (client.closing) {
    drop_client(client);
    return;
  }
  watch(client.fd, watch_client, static_cast<std::uint32_t>(index), EPOLLIN);
}

void set_deadline(Client& client, std::int64_t now) {
  const bool waiting = !client.proven || client.in.size() > 0 || client.out.size() > 0;
  client.deadline = now + (waiting ? slow_limit : idle_limit);
}

}  // namespace

bool open_control() {
  g.listen_s = open_listener('s');
  if (g.listen_s < 0) {
    fail_start("control-socket", errno, "s");
    return false;
  }
  g.listen_c = open_listener('c');
  if (g.listen_c < 0) {
    fail_start("control-socket", errno, "c");
    return false;
  }
  return watch(g.listen_s, watch_listen, 0, EPOLLIN) && watch(g.listen_c, watch_listen, 1, EPOLLIN);
}

void accept_client(bool control) {
  const std::size_t first = control ? clients_per_socket : 0;
  const int listener = control ? g.listen_c : g.listen_s;
  for (std::size_t i = first; i < first + clients_per_socket; ++i) {
    Client& client = g.clients[i];
    if (client.fd >= 0) {
      continue;
    }
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      return;
    }
    client.fd = fd;
    client.control = control;
    set_deadline(client, monotonic_ms());
    if (!watch(fd, watch_client, static_cast<std::uint32_t>(i), EPOLLIN)) {
      drop_client(client);
    }
    return;
  }
  // All places taken: the queue of the listener waits until one is dropped or leaves.
  unwatch(listener);
  g.listen_paused[control ? 1 : 0] = true;
}

void client_ready(std::size_t index, std::uint32_t events) {
  Client& client = g.clients[index];
  if (client.fd < 0) {
    return;
  }
  const bool was_proven = client.proven;
  const bool was_waiting = client.in.size() > 0 || client.out.size() > 0;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && client.out.size() == 0) {
    unsigned char block[4096];
    const ssize_t n = recv(client.fd, block, sizeof block, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
        (n > 0 && !client.in.append(block, static_cast<std::size_t>(n)))) {
      drop_client(client);
      return;
    }
    consume_requests(client);
  }
  flush(index);
  // Dripping bytes does not buy time: the clock of a request begins with its first byte.
  if (client.fd >= 0 && client.proven && (!was_proven || !was_waiting || client.in.size() == 0)) {
    set_deadline(client, monotonic_ms());
  }
}

void expire_clients(std::int64_t now) {
  bool place[2] = {false, false};
  for (std::size_t i = 0; i < 2 * clients_per_socket; ++i) {
    Client& client = g.clients[i];
    if (client.fd >= 0 && client.deadline <= now) {
      drop_client(client);
    }
    place[i / clients_per_socket] |= client.fd < 0;
  }
  for (std::uint32_t c = 0; c < 2; ++c) {
    if (g.listen_paused[c] && place[c]) {
      g.listen_paused[c] = !watch(c == 0 ? g.listen_s : g.listen_c, watch_listen, c, EPOLLIN);
    }
  }
}

std::int64_t clients_due() {
  std::int64_t due = 0;
  for (const Client& client : g.clients) {
    if (client.fd >= 0 && (due == 0 || client.deadline < due)) {
      due = client.deadline;
    }
  }
  return due;
}

void close_control() {
  for (Client& client : g.clients) {
    drop_client(client);
  }
  close_fd(g.listen_s);
  close_fd(g.listen_c);
}

}  // namespace hitchrail::shim
