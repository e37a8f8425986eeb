// Real programs in a boundary whose only way out is a real gate.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "boundary/boundary.hpp"
#include "gate/helper.hpp"
#include "init/plan.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;

namespace {

// Answers each connection with what it got, in upper case; counts them. TCP and UDP on one port.
class Upstream {
 public:
  explicit Upstream(int family = AF_INET) : tcp_(make(family, SOCK_STREAM, 0)) {
    udp_ = make(family, SOCK_DGRAM, port());
    tcp_thread_ = std::thread([this] { serve_tcp(); });
    udp_thread_ = std::thread([this] { serve_udp(); });
  }
  ~Upstream() {
    ending_ = true;
    shutdown(tcp_.get(), SHUT_RDWR);
    shutdown(udp_.get(), SHUT_RDWR);
    tcp_thread_.join();
    udp_thread_.join();
  }
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in6 any{};
    socklen_t size = sizeof any;
    getsockname(tcp_.get(), reinterpret_cast<sockaddr*>(&any), &size);
    return ntohs(any.sin6_port);  // where a sockaddr_in has it too
  }
  [[nodiscard]] int reached() const { return reached_; }

 private:
  static Fd make(int family, int type, std::uint16_t port) {
    Fd fd(socket(family, type | SOCK_CLOEXEC, 0));
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(INADDR_ANY);
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    in6.sin6_addr = in6addr_loopback;
    const bool v4 = family == AF_INET;
    REQUIRE(bind(fd.get(), v4 ? reinterpret_cast<sockaddr*>(&in) : reinterpret_cast<sockaddr*>(&in6),
                 v4 ? sizeof in : sizeof in6) == 0);
    if (type == SOCK_STREAM) {
      REQUIRE(listen(fd.get(), 100) == 0);
    }
    return fd;
  }
  static void upper(char* bytes, ssize_t size) {
    for (ssize_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>(std::toupper(bytes[i]));
    }
  }
  void serve_tcp() {
    for (;;) {
      const Fd client(accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) {
        return;
      }
      ++reached_;
      char bytes[4096];
      const ssize_t got = recv(client.get(), bytes, sizeof bytes, 0);
      upper(bytes, got);
      (void)!send(client.get(), bytes, got > 0 ? static_cast<std::size_t>(got) : 0, MSG_NOSIGNAL);
    }
  }
  void serve_udp() {
    char bytes[4096];
    while (!ending_) {
      const ssize_t got = recv(udp_.get(), bytes, sizeof bytes, 0);
      reached_ += got > 0 ? 1 : 0;
      if (got <= 0) {
        return;
      }
    }
  }
  Fd tcp_;
  Fd udp_;
  std::atomic<int> reached_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread tcp_thread_;
  std::thread udp_thread_;
};

// A boundary with `network: gate`.
Compiled gated(const World& world, const gate::Policy& policy, Backend backend = Backend::native) {
  Preset preset = world.preset();
  preset.network = Network::gate;
  Options options;
  options.backend = backend;
  options.egress = policy;
  auto compiled = compile(preset, world.roots(), World::machine(), options);
  if (compiled.has_error()) {
    FAIL(compiled.error().code << " " << compiled.error().detail);
  }
  return std::move(compiled).value();
}

RunOutput run_gated(const World& world, const gate::Policy& policy, const std::string& script) {
  Compiled compiled = gated(world, policy);
  if (const Status usable = admit(compiled); usable.has_error()) {
    FAIL(usable.error().code << " " << usable.error().detail);
  }
  REQUIRE(make_placeholders(compiled, world.attempt()).has_value());
  RunLimits limits;
  limits.wall_ms = 60000;
  const Command command = world.shell(compiled, script);
  auto output = run(compiled, command, limits, {}, world.run());
  if (output.has_error()) {
    FAIL(output.error().code << " " << output.error().object << " " << output.error().detail);
  }
  return std::move(output).value();
}

gate::Policy relay_to(const std::string& endpoint, std::vector<std::string> hosts = {}) {
  const auto relay = gate::parse_relay(endpoint);
  REQUIRE(relay.has_value());
  return {std::move(hosts), {*relay}};
}

std::string tcp(const std::string& host, std::uint16_t port) {
  return "exec 3<>/dev/tcp/" + host + "/" + std::to_string(port);
}

pid_t child_named(const std::string& name) {
  std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
  pid_t pid = 0;
  while (children >> pid) {
    std::string text;
    std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> text;
    if (text == name) {
      return pid;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("PB-50: the very first connection of a run to its upstream is served, again and again") {
  const Upstream upstream;
  const std::string port = std::to_string(upstream.port());
  for (int i = 0; i < 20; ++i) {
    const World world;
    const RunOutput output =
        run_gated(world, relay_to("127.0.0.1:" + port),
                  "bash -c '" + tcp("127.0.0.1", upstream.port()) + " && echo hello >&3 && cat <&3'");
    INFO(output.err);
    REQUIRE(output.out == "HELLO\n");
  }
  CHECK(upstream.reached() == 20);
}

TEST_CASE("a program that ignores the proxy reaches nothing, by TCP, UDP, IPv6, DNS and abstract names") {
  const Upstream upstream;
  const Upstream upstream6(AF_INET6);
  const Upstream relayed;
  Fd abstract(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "hitchrail-gate-test-" + std::to_string(getpid());
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  REQUIRE(bind(abstract.get(), reinterpret_cast<sockaddr*>(&name),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size())) == 0);
  REQUIRE(listen(abstract.get(), 5) == 0);

  const World world;
  world.write(world.path("tree/try.py"), R"(
import socket, sys
port, port6, relay, abstract = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def attempt(label, family, kind, address, payload=b"out"):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            s.sendall(payload)
            print(label, "connected")
    except OSError as error:
        print(label, "no", type(error).__name__)
I, I6, U, T, D = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
attempt("tcp4", I, T, ("127.0.0.1", port))
attempt("tcp4-other-loopback", I, T, ("127.0.0.2", port))
attempt("tcp6", I6, T, ("::1", port6))
attempt("tcp-mapped", I6, T, ("::ffff:127.0.0.1", port))
attempt("udp4-far", I, D, ("192.0.2.1", port))
attempt("udp4-dns", I, D, ("8.8.8.8", 53))
attempt("tcp4-far", I, T, ("8.8.8.8", 53))
attempt("tcp4-private", I, T, ("10.0.0.1", 80))
attempt("tcp4-metadata", I, T, ("169.254.169.254", 80))
attempt("tcp6-far", I6, T, ("2606:4700:4700::1111", 443))
attempt("abstract", U, T, "\0" + abstract)
for kind in (D,):  # a connected UDP socket on loopback always "connects": only the far end can tell
    with socket.socket(I, kind) as s:
        try:
            s.sendto(b"out", ("127.0.0.1", port))
        except OSError:
            pass
try:
    socket.getaddrinfo("example.com", 443)
    print("dns resolved")
except OSError as error:
    print("dns no")
for family, kind, address in ((I, T, ("127.0.0.1", relay)), (I, T, ("0.0.0.0", relay))):
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(address)
        s.listen()
        print("port taken over")
    except OSError as error:
        print("takeover no")
    s.close()
with socket.create_connection(("127.0.0.1", relay), 5) as s:
    s.sendall(b"relayed")
    print("relay", s.recv(100).decode())
)");
  const std::string script = "python3 try.py " + std::to_string(upstream.port()) + " " +
                             std::to_string(upstream6.port()) + " " + std::to_string(relayed.port()) + " " +
                             text;
  const RunOutput output = run_gated(world, relay_to("127.0.0.1:" + std::to_string(relayed.port())), script);
  INFO(output.out << output.err);
  CHECK(output.ok());
  CHECK(output.out.find("connected") == std::string::npos);
  CHECK(output.out.find("resolved") == std::string::npos);
  CHECK(output.out.find("taken over") == std::string::npos);
  CHECK(output.out.find("relay RELAYED") != std::string::npos);
  CHECK(upstream.reached() == 0);
  CHECK(upstream6.reached() == 0);
  CHECK(relayed.reached() == 1);

  // The same program outside: what it could not reach was there.
  const std::string outside = "python3 " + world.path("tree/try.py") + " " + std::to_string(upstream.port()) +
                              " " + std::to_string(upstream6.port()) + " " + std::to_string(relayed.port()) +
                              " " + text + " > " + world.path("outside.txt") + " 2>&1";
  CHECK(std::system(outside.c_str()) == 0);
  const std::string seen = world.read(world.path("outside.txt"));
  INFO(seen);
  for (const char* label :
       {"tcp4 connected", "tcp6 connected", "tcp-mapped connected", "abstract connected"}) {
    CHECK(seen.find(label) != std::string::npos);
  }
  CHECK(upstream.reached() > 0);
}

TEST_CASE(
    "an address that is not the loopback's is put there for its relay, and nothing else of its network") {
  const Upstream upstream;
  // Nobody listens on it outside: what counts is that the run reaches the gate under that very address.
  const World world;
  gate::Policy policy = relay_to("198.51.100.7:8443");
  policy.relays.push_back(*gate::parse_relay("[2001:db8::7]:8443"));
  const RunOutput output = run_gated(world, policy, R"(python3 -c '
import socket
def attempt(label, family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(1)
    try:
        s.connect(address)
        print(label, "connected")
    except OSError as error:
        print(label, "no")
attempt("v4", socket.AF_INET, ("198.51.100.7", 8443))
attempt("v6", socket.AF_INET6, ("2001:db8::7", 8443))
attempt("v4-other-port", socket.AF_INET, ("198.51.100.7", 8444))
attempt("v4-neighbour", socket.AF_INET, ("198.51.100.8", 8443))
attempt("v6-neighbour", socket.AF_INET6, ("2001:db8::8", 8443))
')");
  INFO(output.err);
  CHECK(output.out == "v4 connected\nv6 connected\nv4-other-port no\nv4-neighbour no\nv6-neighbour no\n");
}

TEST_CASE("CONNECT to the host's own services is refused whatever the address is called") {
  const Upstream upstream;
  const World world;
  const std::string port = std::to_string(upstream.port());
  const RunOutput output = run_gated(world, relay_to("127.0.0.1:1"),
                                     R"(
for host in 127.0.0.1 localhost 127.1 2130706433 '[::ffff:7f00:1]' '[::1]' 0.0.0.0 example.com; do
  bash -c "${HTTPS_PROXY:+exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}}; printf 'CONNECT $host:)" +
                                         port +
                                         R"( HTTP/1.1\r\n\r\n' >&3; head -1 <&3"
done)");
  INFO(output.out << output.err);
  std::size_t refused = 0;
  for (std::size_t at = output.out.find(" 403 "); at != std::string::npos;
       at = output.out.find(" 403 ", at + 1)) {
    ++refused;
  }
  CHECK(refused == 8);
  CHECK(upstream.reached() == 0);
}

TEST_CASE(
    "a gate that is killed again and again is replaced on the same sockets, and no connection is refused") {
  const Upstream upstream;
  const World world;
  std::atomic<bool> done = false;
  std::atomic<int> kills = 0;
  std::thread killer([&] {
    while (!done && kills < 8) {
      if (const pid_t pid = child_named("hitchrail-gate"); pid > 0) {
        kills += kill(pid, SIGKILL) == 0 ? 1 : 0;
      }
      usleep(60'000);
    }
  });
  const std::string port = std::to_string(upstream.port());
  // A connection that a killed gate held breaks; the next one works.
  const RunOutput output = run_gated(world, relay_to("127.0.0.1:" + port), R"(python3 -c '
import socket, time
served = refused = broken = 0
end = time.time() + 5
while time.time() < end:
    try:
        with socket.create_connection(("127.0.0.1", )" + port + R"(), 10) as s:
            s.sendall(b"x")
            if s.recv(10) == b"X":
                served += 1
            else:
                broken += 1
    except ConnectionRefusedError:
        refused += 1
    except OSError:
        broken += 1
    time.sleep(0.005)
print("refused", refused)
print("served" if served >= 5 else "hardly served", broken < 60)
')");
  done = true;
  killer.join();
  INFO(output.out << output.err);
  CHECK(kills >= 3);
  CHECK(output.out == "refused 0\nserved True\n");
}

TEST_CASE(
    "PB-48: a launcher that ignores SIGCHLD and blocks every signal has a gate, and its program's exit "
    "code") {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  const Upstream upstream;
  const World world;
  const RunOutput output =
      run_gated(world, relay_to("127.0.0.1:" + std::to_string(upstream.port())),
                "bash -c '" + tcp("127.0.0.1", upstream.port()) + " && echo hello >&3 && cat <&3'; exit 7");
  sigprocmask(SIG_SETMASK, &old, nullptr);
  sigaction(SIGCHLD, &before, nullptr);
  CHECK(output.out == "HELLO\n");
  CHECK(output.end == RunOutput::End::exited);
  CHECK(output.value == 7);
  CHECK(child_named("hitchrail-gate") == 0);
}

TEST_CASE(
    "gate-listener: a socket that does not listen, listens elsewhere or lies in the host's network is "
    "refused") {
  const auto compiled = gate::compile(relay_to("127.0.0.1:9"));
  REQUIRE(compiled.has_value());
  const auto refusal = [&](std::vector<Fd> sockets) {
    auto started = gate::Helper::start(compiled.value(), std::move(sockets));
    return started.has_error() ? started.error().code + ": " + started.error().detail : "started";
  };
  const auto socket_on = [](const gatewire::Listener& listener, bool listening) {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(listener.port);
    std::memcpy(&in.sin_addr, listener.address + 12, 4);
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)!bind(fd.get(), reinterpret_cast<sockaddr*>(&in), sizeof in);
    if (listening) {
      REQUIRE(listen(fd.get(), 5) == 0);
    }
    return fd;
  };
  const auto& listeners = compiled.value().listeners;
  std::vector<Fd> sockets;
  sockets.push_back(socket_on(listeners[0], true));
  CHECK(refusal(std::move(sockets)).find("another number") != std::string::npos);
  sockets.clear();
  sockets.push_back(socket_on(listeners[0], false));
  sockets.push_back(socket_on(listeners[0], false));
  CHECK(refusal(std::move(sockets)).find("does not listen") != std::string::npos);
  sockets.clear();
  sockets.push_back(socket_on(listeners[0], true));
  sockets.push_back(socket_on(listeners[0], false));
  CHECK(refusal(std::move(sockets)).find("the host's network") != std::string::npos);
}

TEST_CASE("nothing of a gate is left when its run is over, however it ended") {
  const Upstream upstream;
  for (const char* script : {"exit 0", "kill -9 $$", "sleep 60"}) {
    const World world;
    Compiled compiled = gated(world, relay_to("127.0.0.1:" + std::to_string(upstream.port())));
    REQUIRE(make_placeholders(compiled, world.attempt()).has_value());
    RunLimits limits;
    limits.wall_ms = 500;
    const auto output = run(compiled, world.shell(compiled, script), limits, {}, world.run());
    CHECK(output.has_value());
    CHECK(child_named("hitchrail-gate") == 0);
  }
}

TEST_CASE("a gate holds no file open for writing and no descriptor beside its own") {
  const Upstream upstream;
  const World world;
  std::string seen;
  std::string status;
  std::thread look([&] {
    pid_t pid = 0;
    for (int i = 0; i < 400 && pid == 0; ++i) {
      pid = child_named("hitchrail-gate");
      usleep(10'000);
    }
    usleep(300'000);
    std::ifstream stream("/proc/" + std::to_string(pid) + "/status");
    status.assign(std::istreambuf_iterator<char>(stream), {});
    if (geteuid() == 0 && pid != 0) {  // it is not dumpable: an ordinary user cannot look
      for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
        seen += std::filesystem::read_symlink(entry).string() + "\n";
      }
    }
  });
  (void)run_gated(world, relay_to("127.0.0.1:" + std::to_string(upstream.port())), "sleep 1");
  look.join();
  INFO(seen << status);
  CHECK(status.find("NoNewPrivs:\t1") != std::string::npos);
  CHECK(status.find("Seccomp:\t2") != std::string::npos);
  CHECK(status.find("CapEff:\t0000000000000000") != std::string::npos);
  CHECK(status.find("CapBnd:\t0000000000000000") != (geteuid() == 0 ? std::string::npos : 0));
  const std::size_t rss = status.find("VmRSS:");
  REQUIRE(rss != std::string::npos);
  CHECK(std::stol(status.substr(rss + 6)) < 16 * 1024);
  std::istringstream lines(seen);
  for (std::string line; std::getline(lines, line);) {
    const bool own = line == "/dev/null" || line.rfind("socket:", 0) == 0 ||
                     line.rfind("anon_inode:", 0) == 0 || line.rfind("/memfd:", 0) == 0;
    CHECK(own);
  }
}

TEST_CASE("the landlock backend cannot hold a gate and says so") {
  if (!World::has_landlock()) {
    return;
  }
  const World world;
  const Compiled compiled = gated(world, relay_to("127.0.0.1:1"), Backend::landlock);
  const Status usable = admit(compiled);
  REQUIRE(usable.has_error());
  CHECK(usable.error().code == "capability-unproven");
}

TEST_CASE("a host or relay that no gate may reach blocks the launch with its own code") {
  const World world;
  CHECK(admit(gated(world, {{"localhost"}, {}})).error().code == "gate-host-invalid");
  CHECK(admit(gated(world, relay_to("169.254.169.254:80"))).error().code == "gate-relay-invalid");
}

TEST_CASE("the policy hash knows the hosts and relays, and the evidence none of them by name") {
  const World world;
  const Compiled one = gated(world, relay_to("127.0.0.1:4711", {"api.example.com"}));
  const Compiled other = gated(world, relay_to("127.0.0.1:4712", {"api.example.com"}));
  CHECK(one.policy_hash != other.policy_hash);
  const json::Value& egress = one.evidence.get("egress");
  CHECK(egress.get("policyHash").as_string() == one.gate->policy_hash);
  CHECK(egress.get("allowedHosts").as_int() == 1);
  CHECK(egress.get("relays").as_int() == 1);
  CHECK(json::write(one.evidence).find("4711") == std::string::npos);
}
