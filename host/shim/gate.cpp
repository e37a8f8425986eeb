// The run's egress helper: its listening sockets are kept here, so that a dead gate is replaced by another on
// the same sockets while connections wait in their backlog.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "gate/listeners.hpp"
#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

namespace gw = gatewire;

constexpr std::uint32_t max_quick_deaths = 12;
constexpr std::int64_t long_life = 10000;
constexpr std::int64_t end_grace = 300;  // for its last records, after the tree's end
constexpr std::uint64_t crowded_log =
    2u << 20;  // payload bytes: above it records stay in the gate, which joins them
constexpr std::int64_t crowded_wait = 100;

bool log_restart(std::uint32_t type, int status) {
  const gw::Restart event{type, g.gate.restarts, status, 0};
  return log_input(input_egress, &event, sizeof event, nullptr, 0) != 0;
}

std::size_t put(char* out, std::size_t at, std::size_t size, const char* text, std::size_t length) {
  const std::size_t room = size - 1 - at;
  length = length < room ? length : room;
  memcpy(out + at, text, length);
  out[at + length] = 0;
  return at + length;
}

// "exact:api.example.com:443", "subdomain:…", "relay".
void name_rule(gw::Decision& event) {
  const gw::Record& record = event.record;
  if (record.rule == 0) {
    return;
  }
  if (record.protocol == gw::protocol_relay) {
    set_text(event.rule, "relay");
    return;
  }
  if (record.rule > g.gate.policy->rule_count) {
    return;
  }
  const auto* rules = reinterpret_cast<const gw::Rule*>(
      reinterpret_cast<const unsigned char*>(g.gate.policy) + sizeof(gw::Header) +
      g.gate.policy->listener_count * sizeof(gw::Listener));
  const gw::Rule& rule = rules[record.rule - 1];
  const char* kind = rule.subdomains != 0 ? "subdomain:" : "exact:";
  std::size_t at = put(event.rule, 0, sizeof event.rule, kind, strlen(kind));
  at = put(event.rule, at, sizeof event.rule, rule.name, rule.size);
  char port[24] = ":";
  format_number(port + 1, rule.port);
  put(event.rule, at, sizeof event.rule, port, strlen(port));
}

void start_gate() {
  Gate& gate = g.gate;
  gate.due = 0;
  gate.started = monotonic_ms();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    gate_died(0);
    return;
  }
  FdMap map[2 + gw::max_listeners] = {{shim_gate_policy, gw::gate_policy}, {ends[1], gw::gate_events}};
  for (std::uint32_t i = 0; i < gate.listener_count; ++i) {
    map[2 + i] = {gate.listeners[i], gw::gate_listeners + static_cast<int>(i)};
  }
  const char* const argv[] = {"hitchrail-gate", nullptr};
  const char* const environment[] = {nullptr};
  const int pid = start_child({shim_gate, argv, environment, map, 2 + gate.listener_count, true});
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    gate_died(0);
    return;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  gate.socket = ends[0];
  gate.pid = pid;
  gate.pidfd = open_pidfd(pid);
  watch(gate.socket, watch_gate, 0, EPOLLIN);
}

void close_listeners() {
  for (std::uint32_t i = 0; i < g.gate.listener_count; ++i) {
    close_fd(g.gate.listeners[i]);
  }
  g.gate.listener_count = 0;
}

void drop_socket() {
  if (g.gate.socket >= 0) {
    unwatch(g.gate.socket);
    close_fd(g.gate.socket);
  }
}

const char* check_listeners(const int* fds, int count) {
  if (g.gate.policy == nullptr) {
    return "no gate was asked for";
  }
  if (count != static_cast<int>(g.gate.policy->listener_count) || g.gate.listener_count != 0) {
    return "another number of sockets came than was asked for";
  }
  std::uint64_t own = 0;
  if (!gate::own_netns_cookie(own)) {
    return "this kernel cannot tell network namespaces apart (Linux 5.14 can)";
  }
  const auto* wanted = reinterpret_cast<const gw::Listener*>(
      reinterpret_cast<const unsigned char*>(g.gate.policy) + sizeof(gw::Header));
  for (int i = 0; i < count; ++i) {
    if (const char* wrong = gate::wrong_listener(fds[i], wanted[i], own)) {
      return wrong;
    }
  }
  return nullptr;
}

}  // namespace

bool load_gate() {
  if (!g.gate_given) {
    return true;
  }
  struct stat info {};
  const int seals = fcntl(shim_gate_policy, F_GET_SEALS);
  constexpr int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & wanted) != wanted || fstat(shim_gate_policy, &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(gw::Header))) {
    fail_start("gate-policy", EINVAL, "not a sealed policy");
    return false;
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, shim_gate_policy, 0);
  const auto* policy = static_cast<const gw::Header*>(map);
  if (map == MAP_FAILED || policy->magic != gw::magic || policy->version != gw::version ||
      policy->listener_count == 0 || policy->listener_count > gw::max_listeners ||
      policy->rule_count > gw::max_rules ||
      size != sizeof(gw::Header) + policy->listener_count * sizeof(gw::Listener) +
                  policy->rule_count * sizeof(gw::Rule)) {
    fail_start("gate-policy", EINVAL, "another version or size");
    return false;
  }
  g.gate.policy = policy;
  return true;
}

void take_listeners(const int* fds, int count) {
  if (const char* wrong = check_listeners(fds, count)) {
    for (int i = 0; i < count; ++i) {
      close(fds[i]);
    }
    fail_start("gate-listener", EPERM, wrong);
    raise_event(event_start_failed);
    return;
  }
  for (int i = 0; i < count; ++i) {
    g.gate.listeners[i] = fds[i];
  }
  g.gate.listener_count = static_cast<std::uint32_t>(count);
  start_gate();
  const InitReply reply{reply_listeners_taken, 0};
  (void)!send(g.init_socket, &reply, sizeof reply, MSG_NOSIGNAL);
}

bool gate_ready() {
  return g.gate.policy == nullptr || g.gate.listener_count > 0;
}

// `whole`: the gate is dead, and what it left in the socket has nowhere else to wait.
static void read_records(bool whole) {
  while (g.gate.socket >= 0) {
    if (!whole && g.log.payload_bytes > crowded_log) {
      unwatch(g.gate.socket);
      g.gate.read_again = monotonic_ms() + crowded_wait;
      return;
    }
    gw::Decision event{};
    const ssize_t n = recv(g.gate.socket, &event.record, sizeof event.record, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      drop_socket();  // its status comes by SIGCHLD
      return;
    }
    if (n == static_cast<ssize_t>(sizeof event.record)) {
      event.type = gw::event_decision;
      memcpy(event.policy_hash, g.gate.policy->policy_hash, sizeof event.policy_hash);
      name_rule(event);
      log_input(input_egress, &event, sizeof event, nullptr, 0);
    }
  }
}

void gate_readable() {
  read_records(false);
}

// Also when it could not even be started (status 0).
void gate_died(int status) {
  Gate& gate = g.gate;
  gate.pid = 0;
  read_records(true);
  drop_socket();
  close_fd(gate.pidfd);
  gate.read_again = 0;
  if (gate.ending) {
    gate.deadline = 0;
    raise_event(event_drained);
    return;
  }
  const std::int64_t now = monotonic_ms();
  gate.last_status = status;
  gate.quick_deaths = now - gate.started >= long_life ? 1 : gate.quick_deaths + 1;
  if (gate.quick_deaths >= max_quick_deaths) {
    close_listeners();  // a connection is refused at once instead of waiting for nobody
    log_restart(gw::event_lost, status);
    return;
  }
  const std::int64_t wait = gate.quick_deaths == 1 ? 0 : 10ll << gate.quick_deaths;
  gate.due = now + (wait > 2000 ? 2000 : wait) + 1;
}

void end_gate() {
  Gate& gate = g.gate;
  gate.ending = true;
  gate.due = 0;
  close_listeners();
  if (gate.pid != 0) {
    shutdown(gate.socket, SHUT_WR);
    gate.deadline = monotonic_ms() + end_grace;
  }
}

bool gate_settled() {
  return g.gate.pid == 0;
}

std::int64_t gate_due() {
  const Gate& gate = g.gate;
  std::int64_t due = 0;
  for (const std::int64_t when : {gate.due, gate.deadline, gate.read_again}) {
    due = when != 0 && (due == 0 || when < due) ? when : due;
  }
  return due;
}

void gate_tick(std::int64_t now) {
  Gate& gate = g.gate;
  if (gate.due != 0 && now >= gate.due) {
    ++gate.restarts;
    log_restart(gw::event_restarted, gate.last_status);
    start_gate();
  }
  if (gate.read_again != 0 && now >= gate.read_again && gate.socket >= 0) {
    gate.read_again = 0;
    watch(gate.socket, watch_gate, 0, EPOLLIN);
    gate_readable();
  }
  if (gate.deadline != 0 && now >= gate.deadline) {
    gate.deadline = 0;
    signal_pidfd(gate.pidfd, SIGKILL);
  }
}

}  // namespace hitchrail::shim
