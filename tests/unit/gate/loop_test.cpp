// A whole gate in this process, in a network of its own: relays, tunnels, refusals, limits, and what
// attackers do.
#include "gate/loop.hpp"

#include "core/fd.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

using namespace hitchrail;
using namespace hitchrail::gate;
using namespace std::chrono_literals;

namespace {

// A public address that belongs to nobody here, on this network's loopback device: what a literal host is
// dialled at.
constexpr const char* public_address = "93.184.216.34";

// This process gets a network namespace of its own before any thread exists.
void enter_network() {
  static const bool entered = [] {
    signal(SIGPIPE, SIG_IGN);
    const int flags = geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER;
    if (unshare(flags) != 0) {
      return false;
    }
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    bool ok = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    strcpy(request.ifr_name, "lo:1");
    auto& address = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
    address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, public_address, &address.sin_addr);
    ok = ok && ioctl(fd, SIOCSIFADDR, &request) == 0;
    close(fd);
    return ok;
  }();
  REQUIRE(entered);
}

sockaddr_in endpoint(const char* address, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, address, &in.sin_addr);
  return in;
}

Fd listen_at(const char* address, std::uint16_t port, int backlog = 4096) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in in = endpoint(address, port);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in) == 0);
  REQUIRE(listen(fd.get(), backlog) == 0);
  return fd;
}

std::uint16_t port_of(const Fd& fd) {
  sockaddr_in in{};
  socklen_t size = sizeof in;
  REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&in), &size) == 0);
  return ntohs(in.sin_port);
}

// Sends back what comes, until the end of it.
class Echo {
 public:
  explicit Echo(const char* address = "127.0.0.1", std::uint16_t port = 0)
      : listener_(listen_at(address, port)), thread_([this] { serve(); }) {}
  ~Echo() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (auto& each : connections_) {
      each.join();
    }
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  std::uint16_t port() const { return port_of(listener_); }
  int accepted() const { return accepted_; }

 private:
  void serve() {
    for (;;) {
      const int client = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) {
        return;
      }
      ++accepted_;
      connections_.emplace_back([client] {
        std::vector<char> bytes(256u << 10);
        ssize_t got = 0;
        while ((got = recv(client, bytes.data(), bytes.size(), 0)) > 0) {
          for (ssize_t done = 0; done < got;) {
            const ssize_t sent =
                send(client, bytes.data() + done, static_cast<std::size_t>(got - done), MSG_NOSIGNAL);
            if (sent <= 0) {
              break;
            }
            done += sent;
          }
        }
        close(client);
      });
    }
  }
  Fd listener_;
  std::atomic<int> accepted_ = 0;
  std::vector<std::thread> connections_;
  std::thread thread_;
};

Resolver& resolver() {
  static Resolver* one = [] {
    auto* made = new Resolver;  // its threads live to the end of the process
    return made->start() ? made : nullptr;
  }();
  return *one;
}

// A gate with one relay, running in a thread.
class Running {
 public:
  explicit Running(std::uint16_t upstream, const Limits& limits = {}, std::vector<std::string> hosts = {}) {
    Policy policy{std::move(hosts), {{mapped(0x7f000001), upstream}}};
    auto compiled = compile(policy);
    REQUIRE(compiled.has_value());
    compiled_ = std::move(compiled).value();
    document_ = *read_document(compiled_.document);
    proxy_ = listen_at("127.0.0.1", 0);
    relay_ = listen_at("127.0.0.2", 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events_) == 0);
    gate_ = std::make_unique<Gate>(document_, events_[1], std::vector<int>{proxy_.get(), relay_.get()},
                                   resolver(), limits);
    REQUIRE(gate_->start());
    thread_ = std::thread([this] { gate_->run(); });
  }
  ~Running() {
    stop();
    close(events_[0]);
    close(events_[1]);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  void stop() {
    if (thread_.joinable()) {
      shutdown(events_[0], SHUT_WR);
      thread_.join();
      gate_.reset();
    }
  }
  std::vector<gatewire::Record> records() {
    std::vector<gatewire::Record> out;
    gatewire::Record record{};
    while (recv(events_[0], &record, sizeof record, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof record)) {
      out.push_back(record);
    }
    return out;
  }
  std::uint16_t proxy() const { return port_of(proxy_); }
  std::uint16_t relay() const { return port_of(relay_); }

 private:
  Compiled compiled_;
  Document document_;
  Fd proxy_;
  Fd relay_;
  int events_[2] = {-1, -1};
  std::unique_ptr<Gate> gate_;
  std::thread thread_;
};

class Client {
 public:
  Client(const char* address, std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{10, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const sockaddr_in in = endpoint(address, port);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in) == 0;
  }
  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  bool send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  std::string receive(std::size_t size) const {
    std::string out(size, '\0');
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = recv(fd_.get(), out.data() + have, size - have, 0);
      if (got <= 0) {
        break;
      }
      have += static_cast<std::size_t>(got);
    }
    out.resize(have);
    return out;
  }
  // Everything to the end; `reset` when the end was a broken connection.
  std::string rest(bool* reset = nullptr) const {
    std::string out;
    char bytes[65536];
    ssize_t got = 0;
    while ((got = recv(fd_.get(), bytes, sizeof bytes, 0)) > 0) {
      out.append(bytes, static_cast<std::size_t>(got));
    }
    if (reset != nullptr) {
      *reset = got < 0 && errno == ECONNRESET;
    }
    return out;
  }
  void break_now() {
    const linger now{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }
  void close_now() { fd_.reset(); }

 private:
  Fd fd_;
  bool connected_ = false;
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  std::uint32_t state = 7;
  for (char& c : out) {
    c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  }
  return out;
}

std::string ask(std::uint16_t proxy, const std::string& request) {
  const Client client("127.0.0.1", proxy);
  REQUIRE(client.connected());
  client.send_all(request);
  return client.rest();
}

// Both directions at once, since an echo blocks when nobody reads it.
std::string echoed(const Client& client, const std::string& bytes) {
  std::thread writer([&] {
    client.send_all(bytes);
    shutdown(client.fd(), SHUT_WR);
  });
  std::string back = client.rest();
  writer.join();
  return back;
}

}  // namespace

TEST_CASE("a relay hands on every byte in both directions, and the end of each") {
  enter_network();
  const Echo echo;
  Running gate(echo.port());
  const std::string bytes = pattern(32u << 20);
  const Client client("127.0.0.2", gate.relay());
  REQUIRE(client.connected());
  CHECK(echoed(client, bytes) == bytes);
  gate.stop();
  const auto records = gate.records();
  REQUIRE(records.size() == 1);
  CHECK(records[0].allowed == 1);
  CHECK(records[0].reason == gatewire::reason_relay);
  CHECK(records[0].port == echo.port());
}

TEST_CASE("a tunnel to an allowed public address carries what came with the request and all that follows") {
  enter_network();
  const Echo echo(public_address);
  Running gate(1, {}, {std::string(public_address) + ":" + std::to_string(echo.port())});
  const std::string target = std::string(public_address) + ":" + std::to_string(echo.port());
  const Client client("127.0.0.1", gate.proxy());
  const std::string bytes = pattern(8u << 20);
  REQUIRE(client.send_all("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\nearly"));
  const std::string answer = "HTTP/1.1 200 Connection established\r\n\r\n";
  CHECK(client.receive(answer.size()) == answer);
  CHECK(client.receive(5) == "early");
  CHECK(echoed(client, bytes) == bytes);
  gate.stop();
  const auto records = gate.records();
  REQUIRE(records.size() == 1);
  CHECK(records[0].reason == gatewire::reason_host_rule);
  CHECK(records[0].rule == 1);
}

TEST_CASE("a refused request gets its status, and the destination no connection") {
  enter_network();
  const Echo echo;
  Running gate(1);
  const std::string local = "127.0.0.1:" + std::to_string(echo.port());
  const std::string request = "CONNECT " + local + " HTTP/1.1\r\nHost: " + local + "\r\n\r\n";
  CHECK(ask(gate.proxy(), request).rfind("HTTP/1.1 403 Forbidden\r\n", 0) == 0);
  CHECK(ask(gate.proxy(), request).find("{\"error\":\"loopback-blocked\"}") != std::string::npos);
  CHECK(
      ask(gate.proxy(), "GET http://" + local + "/ HTTP/1.1\r\nHost: x\r\n\r\n").rfind("HTTP/1.1 405 ", 0) ==
      0);
  CHECK(ask(gate.proxy(), "garbage\r\n\r\n").rfind("HTTP/1.1 400 ", 0) == 0);
  CHECK(ask(gate.proxy(), "CONNECT elsewhere.example:443 HTTP/1.1\r\n\r\n").find("default-deny") !=
        std::string::npos);
  CHECK(ask(gate.proxy(), std::string(64u << 10, 'x')).rfind("HTTP/1.1 431 ", 0) == 0);
  CHECK(echo.accepted() == 0);
  gate.stop();
  std::size_t decisions = 0;
  for (const auto& record : gate.records()) {
    CHECK(record.allowed == 0);
    decisions += record.count;
  }
  CHECK(decisions == 6);
}

TEST_CASE("garbage behind a refused request is neither read as a request nor turned into a reset") {
  enter_network();
  Running gate(1);
  const std::string refused = "CONNECT a.example:443 HTTP/1.1\r\n\r\n";
  const Client client("127.0.0.1", gate.proxy());
  REQUIRE(client.send_all(refused + refused + refused + pattern(8000)));
  bool reset = false;
  const std::string answer = client.rest(&reset);
  CHECK_FALSE(reset);
  CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
  gate.stop();
  CHECK(gate.records().size() == 1);
}

TEST_CASE("an upstream that is not there breaks a relayed connection, and is told to a proxied one") {
  enter_network();
  std::uint16_t port = 0;
  {
    const Fd gone = listen_at("127.0.0.1", 0);
    port = port_of(gone);
  }
  Running gate(port, {}, {std::string(public_address) + ":" + std::to_string(port)});
  const Client client("127.0.0.2", gate.relay());
  bool reset = false;
  CHECK(client.rest(&reset).empty());
  CHECK(reset);
  const std::string target = std::string(public_address) + ":" + std::to_string(port);
  const std::string answer = ask(gate.proxy(), "CONNECT " + target + " HTTP/1.1\r\n\r\n");
  CHECK(answer.rfind("HTTP/1.1 502 ", 0) == 0);
  CHECK(answer.find("upstream-failed") != std::string::npos);
}

TEST_CASE("a head that does not come, or comes a byte at a time, ends after its time") {
  enter_network();
  Limits limits;
  limits.head_ms = 300;
  limits.linger_ms = 200;
  Running gate(1, limits);
  const auto begin = std::chrono::steady_clock::now();
  const Client silent("127.0.0.1", gate.proxy());
  const Client slow("127.0.0.1", gate.proxy());
  std::thread dripping([&] {
    for (const char c : std::string("CONNECT a.example:443 HTTP/1.1\r\nHost: ")) {
      if (!slow.send_all(std::string(1, c))) {
        return;
      }
      std::this_thread::sleep_for(30ms);
    }
  });
  CHECK(silent.rest().rfind("HTTP/1.1 408 ", 0) == 0);
  CHECK(slow.rest().rfind("HTTP/1.1 408 ", 0) == 0);
  CHECK(std::chrono::steady_clock::now() - begin < 3s);
  dripping.join();
}

TEST_CASE("64 idle connections to the proxy hold up the 65th, and no relay") {
  enter_network();
  const Echo echo;
  Limits limits;
  limits.head_ms = 1500;
  limits.linger_ms = 100;
  Running gate(echo.port(), limits);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 64; ++i) {
    idle.push_back(std::make_unique<Client>("127.0.0.1", gate.proxy()));
  }
  std::this_thread::sleep_for(200ms);
  const Client waiting("127.0.0.1", gate.proxy());
  REQUIRE(waiting.send_all("CONNECT a.example:443 HTTP/1.1\r\n\r\n"));
  pollfd entry{waiting.fd(), POLLIN, 0};
  CHECK(poll(&entry, 1, 300) == 0);
  const Client relayed("127.0.0.2", gate.relay());
  CHECK(echoed(relayed, "still here") == "still here");
  CHECK(waiting.rest().rfind("HTTP/1.1 403 ", 0) == 0);  // when places are free again
}

TEST_CASE("a half-closed side still gets the rest of the other, and an idle tunnel ends after its time") {
  enter_network();
  const Fd listener = listen_at("127.0.0.1", 0);
  Limits limits;
  limits.idle_ms = 700;
  Running gate(port_of(listener), limits);
  const Client client("127.0.0.2", gate.relay());
  const Fd upstream(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  shutdown(client.fd(), SHUT_WR);
  char byte = 0;
  CHECK(recv(upstream.get(), &byte, 1, 0) == 0);  // the end is handed on
  std::this_thread::sleep_for(100ms);
  CHECK(send(upstream.get(), "late", 4, MSG_NOSIGNAL) == 4);
  CHECK(client.receive(4) == "late");
  const auto begin = std::chrono::steady_clock::now();
  bool reset = false;
  CHECK(client.rest(&reset).empty());
  CHECK(reset);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("a reader that stops reading holds up its own tunnel and no other, in bounded memory") {
  enter_network();
  const Echo echo;
  Running gate(echo.port());
  const Client stuck("127.0.0.2", gate.relay());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const std::string bytes = pattern(1u << 20);
    for (int i = 0; i < 64 && !done; ++i) {
      if (!stuck.send_all(bytes)) {
        return;
      }
    }
  });
  std::this_thread::sleep_for(300ms);
  const std::string bytes = pattern(4u << 20);
  const Client other("127.0.0.2", gate.relay());
  CHECK(echoed(other, bytes) == bytes);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  CHECK(usage.ru_maxrss < 512 * 1024);
  done = true;
  shutdown(stuck.fd(), SHUT_RDWR);
  writer.join();
}

TEST_CASE("a storm of resets and of connections that end at once leaves nothing behind") {
  enter_network();
  const Echo echo;
  Running gate(echo.port());
  { CHECK(echoed(Client("127.0.0.2", gate.relay()), "a") == "a"); }
  std::this_thread::sleep_for(100ms);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 3000; ++i) {
    Client client(i % 2 == 0 ? "127.0.0.1" : "127.0.0.2", i % 2 == 0 ? gate.proxy() : gate.relay());
    if (i % 3 == 0) {
      client.send_all("CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n");
    }
    if (i % 5 != 0) {
      client.break_now();
    }
  }
  { CHECK(echoed(Client("127.0.0.2", gate.relay()), "b") == "b"); }
  std::this_thread::sleep_for(1500ms);
  CHECK(open_descriptors() <= before + 2);
}

TEST_CASE("10,000 connections at once are served in turn, and the gate needs no more than its places") {
  enter_network();
  const Echo echo;
  Limits limits;
  limits.linger_ms = 50;
  Running gate(echo.port(), limits);
  rlimit more{};
  getrlimit(RLIMIT_NOFILE, &more);
  more.rlim_cur = more.rlim_max;
  setrlimit(RLIMIT_NOFILE, &more);
  const std::size_t wanted = more.rlim_max > 12000 ? 10000 : static_cast<std::size_t>(more.rlim_max) - 500;
  const sockaddr_in in = endpoint("127.0.0.1", gate.proxy());
  std::vector<Fd> flood;
  for (std::size_t i = 0; i < wanted; ++i) {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) {
      break;
    }
    (void)!connect(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in);
    flood.push_back(std::move(fd));
  }
  CHECK(flood.size() > 100);
  CHECK(echoed(Client("127.0.0.2", gate.relay()), "through") == "through");
  flood.clear();
  const auto begin = std::chrono::steady_clock::now();
  std::string answer;
  while (answer.empty() && std::chrono::steady_clock::now() - begin < 20s) {
    answer = ask(gate.proxy(), "CONNECT a.example:443 HTTP/1.1\r\n\r\n");
  }
  CHECK(answer.rfind("HTTP/1.1 403 ", 0) == 0);
}

TEST_CASE("without a free descriptor connections wait until there is one") {
  enter_network();
  const Echo echo;
  Running gate(echo.port());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const Client waiting("127.0.0.2", gate.relay());
  CHECK(echoed(waiting, "first") == "first");
  std::this_thread::sleep_for(300ms);  // its descriptors are closed
  rlimit tight = before;
  tight.rlim_cur = open_descriptors() + 3;
  const sockaddr_in in = endpoint("127.0.0.2", gate.relay());
  const Fd third(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<Fd> filler;
  for (;;) {
    Fd fd(dup(0));
    if (!fd) {
      break;
    }
    filler.push_back(std::move(fd));
  }
  REQUIRE(connect(third.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in) == 0);
  REQUIRE(send(third.get(), "x", 1, MSG_NOSIGNAL) == 1);
  pollfd entry{third.get(), POLLIN, 0};
  CHECK(poll(&entry, 1, 400) == 0);
  filler.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(poll(&entry, 1, 5000) == 1);
  char byte = 0;
  CHECK(recv(third.get(), &byte, 1, 0) == 1);
  CHECK(byte == 'x');
}

TEST_CASE("a name that has no address is told so") {
  enter_network();
  Running gate(1, {}, {"name.invalid"});
  const std::string answer = ask(gate.proxy(), "CONNECT name.invalid:443 HTTP/1.1\r\n\r\n");
  CHECK(answer.find("name-unresolved") != std::string::npos);
}

TEST_CASE("the caller's end of the events closes the gate with its last records") {
  enter_network();
  Running gate(1);
  for (int i = 0; i < 200; ++i) {
    ask(gate.proxy(), "CONNECT a" + std::to_string(i % 3) + ".example:443 HTTP/1.1\r\n\r\n");
  }
  gate.stop();
  std::uint64_t sum = 0;
  for (const auto& record : gate.records()) {
    sum += record.count;
  }
  CHECK(sum == 200);
}
