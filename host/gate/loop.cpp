#include "gate/loop.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace hitchrail::gate {
namespace {

constexpr std::size_t scratch_size = 128u << 10;
constexpr std::size_t turn = 1u << 20;  // bytes of one direction before others get their turn
constexpr std::int64_t shortage_ms = 100;

enum Source : std::uint64_t {
  source_events,
  source_resolver,
  source_listener,
  source_client,
  source_upstream
};

// Source, number and generation in the 64 bits that epoll gives back: an event for a connection that was
// closed earlier in the same batch is known by its generation.
std::uint64_t tag(Source source, std::uint64_t number, std::uint32_t generation = 0) {
  return static_cast<std::uint64_t>(source) << 56 | number << 32 | generation;
}

std::int64_t clock_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

bool short_of_something() {
  return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

}  // namespace

Gate::Gate(const Document& document, int events, std::vector<int> listeners, Resolver& resolver,
           const Limits& limits)
    : document_(document),
      events_(events),
      listeners_(std::move(listeners)),
      resolver_(resolver),
      limits_(limits),
      reporter_(events),
      scratch_(scratch_size) {}

Gate::~Gate() {
  for (Connection& connection : connections_) {
    if (connection.state != State::free) {
      finish(connection, true);
    }
  }
  if (epoll_ >= 0) {
    close(epoll_);
  }
}

bool Gate::start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  const auto add = [&](int fd, std::uint64_t data) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool ok = epoll_ >= 0 && add(events_, tag(source_events, 0)) &&
            add(resolver_.ready_fd(), tag(source_resolver, 0));
  for (std::size_t i = 0; i < listeners_.size() && ok; ++i) {
    ok = fcntl(listeners_[i], F_SETFL, O_NONBLOCK) == 0 && add(listeners_[i], tag(source_listener, i));
    listening_[i] = ok;
  }
  return ok;
}

std::size_t Gate::index(const Connection& connection) const {
  return static_cast<std::size_t>(&connection - connections_.data());
}

void Gate::run() {
  while (!ending_) {
    epoll_event events[64];
    const int count = epoll_wait(epoll_, events, 64, wait_time());
    now_ = clock_ms();
    for (int i = 0; i < count && !ending_; ++i) {
      const std::uint64_t data = events[i].data.u64;
      const auto source = static_cast<Source>(data >> 56);
      const auto number = static_cast<std::size_t>(data >> 32 & 0xffffff);
      if (source == source_events) {
        ending_ = true;  // the caller says nothing here; it shuts its end, or is gone
      } else if (source == source_resolver) {
        answers();
      } else if (source == source_listener) {
        accept_all(number);
      } else {
        Connection& connection = connections_[number];
        if (connection.state != State::free && connection.generation == static_cast<std::uint32_t>(data)) {
          ready(connection);
        }
      }
    }
    expire();
    update_listening();
    reporter_.send_due(now_);
  }
  reporter_.flush();
}

int Gate::wait_time() const {
  std::int64_t due = reporter_.due();
  const auto take = [&](std::int64_t when) { due = when != 0 && (due == 0 || when < due) ? when : due; };
  for (const Connection& connection : connections_) {
    take(connection.state == State::free ? 0 : connection.deadline);
  }
  take(listen_again_);
  if (due == 0) {
    return -1;
  }
  return static_cast<int>(std::clamp<std::int64_t>(due - clock_ms(), 0, 60'000));
}

void Gate::expire() {
  for (Connection& connection : connections_) {
    if (connection.state == State::free || now_ < connection.deadline) {
      continue;
    }
    if (connection.state == State::head) {
      refuse(connection, 408, "request-timeout");
    } else if (connection.state == State::resolving) {
      judge_addresses(connection.verdict, {}, is_own_address);
      act_on(connection);
    } else if (connection.state == State::dialing) {
      dialed(connection);
    } else {
      finish(connection, connection.state == State::open);
    }
  }
}

void Gate::update_listening() {
  if (listen_again_ != 0 && now_ >= listen_again_) {
    listen_again_ = 0;
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const bool wanted = listen_again_ == 0 && open_[i == 0 ? 0 : 1] < per_kind;
    if (wanted != listening_[i]) {
      epoll_event event{};
      event.events = wanted ? static_cast<std::uint32_t>(EPOLLIN) : 0;
      event.data.u64 = tag(source_listener, i);
      epoll_ctl(epoll_, EPOLL_CTL_MOD, listeners_[i], &event);
      listening_[i] = wanted;
    }
  }
}

void Gate::accept_all(std::size_t listener) {
  while (open_[listener == 0 ? 0 : 1] < per_kind) {
    const int client = accept4(listeners_[listener], nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client >= 0) {
      open_connection(listener, client);
      continue;
    }
    if (short_of_something()) {
      listen_again_ = now_ + shortage_ms;
    }
    if (errno != ECONNABORTED && errno != EINTR) {
      return;
    }
  }
}

void Gate::open_connection(std::size_t listener, int client) {
  const std::size_t kind = listener == 0 ? 0 : 1;
  const auto first = connections_.begin() + static_cast<std::ptrdiff_t>(kind * per_kind);
  Connection& connection =
      *std::find_if(first, first + per_kind, [](const auto& each) { return each.state == State::free; });
  const std::uint32_t generation = connection.generation + 1;
  connection = {};
  connection.generation = generation;
  connection.client = client;
  connection.relay = kind == 1;
  ++open_[kind];
  no_delay(client);
  if (!connection.relay) {
    connection.state = State::head;
    connection.deadline = now_ + limits_.head_ms;
    want(connection, false, EPOLLIN);
    read_head(connection);  // it is most often there already
    return;
  }
  const gatewire::Listener& upstream = document_.listeners[listener];
  Address address{};
  std::copy(std::begin(upstream.address), std::end(upstream.address), address.begin());
  connection.verdict.record = relay_record(upstream, static_cast<std::uint32_t>(listener));
  connection.verdict.addresses = {address};
  connection.verdict.next = Verdict::Next::dial;
  connection.port = upstream.port;
  act_on(connection);
}

void Gate::ready(Connection& connection) {
  switch (connection.state) {
    case State::head:
      read_head(connection);
      break;
    case State::dialing:
      dialed(connection);
      break;
    case State::open:
      pump_both(connection);
      break;
    case State::lingering:
      linger(connection);
      break;
    case State::resolving:
    case State::free:
      break;
  }
}

void Gate::read_head(Connection& connection) {
  while (connection.state == State::head) {
    const ssize_t got = recv(connection.client, scratch_.data(), max_head, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (got <= 0) {
      finish(connection, got < 0);
      return;
    }
    connection.head.append(scratch_.data(), static_cast<std::size_t>(got));
    const Head head = parse_head(connection.head, connection.scanned);
    if (head.state == Head::State::more) {
      continue;
    }
    connection.verdict = judge_head(document_, head);
    connection.port = head.port;
    if (head.state == Head::State::connect) {
      connection.up.pending = connection.head.substr(head.size);
    }
    connection.head = std::string();
    want(connection, false, 0);
    act_on(connection);
  }
}

void Gate::act_on(Connection& connection) {
  Verdict& verdict = connection.verdict;
  if (verdict.next == Verdict::Next::resolve) {
    connection.state = State::resolving;
    connection.deadline = now_ + limits_.resolve_ms;
    const std::uint64_t id = static_cast<std::uint64_t>(connection.generation) << 32 | index(connection);
    if (resolver_.ask(id, verdict.name)) {
      return;
    }
    judge_addresses(verdict, {}, is_own_address);
  }
  reporter_.add(verdict.record, now_);
  if (verdict.next == Verdict::Next::refuse) {
    refuse(connection, verdict.status, reason_name(verdict.record.reason));
    return;
  }
  connection.state = State::dialing;
  dial_next(connection);
}

void Gate::answers() {
  for (Answer& answer : resolver_.take()) {
    Connection& connection = connections_[answer.id & 0xffffffff];
    if (connection.state == State::resolving && connection.generation == answer.id >> 32) {
      judge_addresses(connection.verdict, std::move(answer.addresses), is_own_address);
      act_on(connection);
    }
  }
}

void Gate::dial_next(Connection& connection) {
  const auto& addresses = connection.verdict.addresses;
  while (connection.next_address < addresses.size()) {
    connection.upstream = dial(addresses[connection.next_address++], connection.port);
    if (connection.upstream >= 0) {
      connection.deadline = now_ + limits_.dial_ms;
      want(connection, true, EPOLLOUT);
      return;
    }
  }
  if (connection.relay) {
    finish(connection, true);  // what a refused connection to the upstream itself would look like
  } else {
    refuse(connection, 502, "upstream-failed");
  }
}

void Gate::dialed(Connection& connection) {
  int error = 0;
  socklen_t size = sizeof error;
  const Address& address = connection.verdict.addresses[connection.next_address - 1];
  const bool connected = now_ < connection.deadline &&
                         getsockopt(connection.upstream, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                         error == 0 && peer_is(connection.upstream, address, connection.port);
  if (connected) {
    open_tunnel(connection);
    return;
  }
  close(connection.upstream);
  connection.upstream = -1;
  connection.upstream_events = 0;
  dial_next(connection);
}

void Gate::open_tunnel(Connection& connection) {
  connection.state = State::open;
  connection.verdict = {};
  if (!connection.relay) {
    static constexpr char answer[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    connection.down.pending.assign(answer, sizeof answer - 1);
  }
  pump_both(connection);
}

void Gate::pump_both(Connection& connection) {
  const Pump up = pump(connection.client, connection.upstream, connection.up, scratch_, turn);
  const Pump down = up == Pump::failed
                        ? Pump::failed
                        : pump(connection.upstream, connection.client, connection.down, scratch_, turn);
  if (up == Pump::failed || down == Pump::failed) {
    finish(connection, true);
    return;
  }
  if (connection.up.shut && connection.down.shut) {
    finish(connection, false);
    return;
  }
  if (up == Pump::moved || down == Pump::moved) {
    connection.deadline = now_ + limits_.idle_ms;
  }
  const auto events = [](const Direction& reads, const Direction& writes) {
    const bool in = !reads.ended && !reads.blocked();
    return (in ? static_cast<std::uint32_t>(EPOLLIN) : 0) |
           (writes.blocked() ? static_cast<std::uint32_t>(EPOLLOUT) : 0);
  };
  want(connection, false, events(connection.up, connection.down));
  want(connection, true, events(connection.down, connection.up));
}

void Gate::refuse(Connection& connection, int status, const char* reason) {
  const std::string answer = refusal(status, reason);
  (void)!send(connection.client, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Closing with unread bytes would turn the answer into a reset.
  shutdown(connection.client, SHUT_WR);
  connection.state = State::lingering;
  connection.deadline = now_ + limits_.linger_ms;
  want(connection, false, EPOLLIN);
}

void Gate::linger(Connection& connection) {
  const ssize_t got = recv(connection.client, scratch_.data(), scratch_.size(), 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    finish(connection, false);
  }
}

// A socket nothing is wanted of is taken out: epoll would report its end again and again.
void Gate::want(Connection& connection, bool upstream, std::uint32_t events) {
  const int fd = upstream ? connection.upstream : connection.client;
  std::uint32_t& now = upstream ? connection.upstream_events : connection.client_events;
  if (now == events) {
    return;
  }
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag(upstream ? source_upstream : source_client, index(connection), connection.generation);
  epoll_ctl(epoll_, events == 0 ? EPOLL_CTL_DEL : now == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  now = events;
}

void Gate::finish(Connection& connection, bool broken) {
  for (int* fd : {&connection.client, &connection.upstream}) {
    if (*fd >= 0) {
      broken ? reset(*fd) : static_cast<void>(close(*fd));
      *fd = -1;
    }
  }
  connection.state = State::free;
  connection.head = std::string();
  connection.up = {};
  connection.down = {};
  connection.verdict = {};
  --open_[connection.relay ? 1 : 0];
}

}  // namespace hitchrail::gate
