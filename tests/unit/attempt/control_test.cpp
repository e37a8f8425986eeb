#include "attempt/control.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "attempt_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using attempt::Control;
using attempt::ControlSocket;
using attempt::Directory;

namespace {

int listener(const std::string& path, bool listening = true) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  if (listening) {
    REQUIRE(::listen(fd, 8) == 0);
  }
  return fd;
}

// A supervisor that answers `count` requests with one outcome and remembers what it was asked.
struct Supervisor {
  Fd fd;
  std::thread thread;
  wire::ControlHello hello{};
  std::vector<wire::ControlRequest> requests;
  std::string payload;

  Supervisor(const std::string& path, std::uint32_t outcome, int count,
             std::size_t status_size = sizeof(wire::StatusPayload))
      : fd(listener(path)) {
    thread = std::thread([this, outcome, count, status_size] {
      const Fd client(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      read(client.get(), &hello, sizeof hello);
      for (int i = 0; i < count; ++i) {
        wire::ControlRequest request{};
        read(client.get(), &request, sizeof request);
        requests.push_back(request);
        payload.resize(request.size);
        read(client.get(), payload.data(), payload.size());
        wire::StatusPayload status{};
        status.phase = wire::phase_running;
        status.runner_pid = 42;
        status.input_id = 7;
        std::string bytes(reinterpret_cast<const char*>(&status), sizeof status);
        bytes.resize(status_size, '\0');
        const wire::ControlReply reply{outcome, static_cast<std::uint32_t>(bytes.size())};
        // In two pieces: a reader that takes a short read for an answer fails.
        (void)!::write(client.get(), &reply, 3);
        ::usleep(2000);
        (void)!::write(client.get(), reinterpret_cast<const char*>(&reply) + 3, sizeof reply - 3);
        (void)!::write(client.get(), bytes.data(), bytes.size());
      }
    });
  }
  ~Supervisor() { thread.join(); }
  static void read(int from, void* to, std::size_t size) {
    for (std::size_t have = 0; have < size;) {
      const ssize_t got = ::read(from, static_cast<char*>(to) + have, size - have);
      if (got <= 0) {
        return;
      }
      have += static_cast<std::size_t>(got);
    }
  }
};

}  // namespace

TEST_CASE("a control client proves the token and reads answers of any length") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_c1");
  const std::string base = state / "attempts/attempt_c1";
  for (const std::size_t size :
       {sizeof(wire::StatusPayload), sizeof(wire::StatusPayload) + 64, std::size_t{24}}) {
    ::unlink((base + "/s").c_str());
    Supervisor supervisor(base + "/s", wire::control_ok, 2, size);
    auto control = must(Control::connect(directory, ControlSocket::supervisor));
    CHECK(must(control.status()).runner_pid == 42);
    must(control.stop());
    CHECK(supervisor.requests.size() == 2);
    CHECK(std::string(reinterpret_cast<const char*>(supervisor.hello.token), wire::token_size) ==
          slurp(base + "/token"));
    CHECK(supervisor.requests[0].type == wire::control_status);
    CHECK(supervisor.requests[1].type == wire::control_stop);
    CHECK(std::memcmp(supervisor.requests[0].idempotency, supervisor.requests[1].idempotency, 16) != 0);
  }
}

TEST_CASE("an input carries kind, name and text, and a set idempotency id is repeated") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_c2");
  Supervisor supervisor(state / "attempts/attempt_c2/c", wire::control_ok, 2);
  auto control = must(Control::connect(directory, ControlSocket::runner));
  control.set_idempotency({1, 2, 3});
  CHECK(must(control.input(16, "name", "some text")).input_id == 7);
  must(control.input(16, "name", "some text"));
  wire::ControlInput head{};
  std::memcpy(&head, supervisor.payload.data(), sizeof head);
  CHECK(head.kind == 16);
  CHECK(supervisor.payload.substr(sizeof head) == "namesome text");
  CHECK(std::memcmp(supervisor.requests[0].idempotency, supervisor.requests[1].idempotency, 16) == 0);
}

TEST_CASE("each refusal of a supervisor has its own code") {
  const std::pair<std::uint32_t, const char*> cases[] = {
      {wire::control_bad_token, "control-refused"},
      {wire::control_bad_request, "control-protocol"},
      {wire::control_runner_restarting, "runner-restarting"},
      {wire::control_too_late, "control-too-late"},
      {wire::control_busy, "control-busy"}};
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_c3");
  for (const auto& [outcome, code] : cases) {
    ::unlink((state / "attempts/attempt_c3/s").c_str());
    Supervisor supervisor(state / "attempts/attempt_c3/s", outcome, 1);
    auto control = must(Control::connect(directory, ControlSocket::supervisor));
    CHECK(code_of(control.kill()) == code);
  }
}

TEST_CASE("fifty stale sockets and five that never answer cost less than two seconds together") {
  TempDir state;
  std::vector<Directory> stale;
  std::vector<Directory> silent;
  std::vector<Fd> listeners;
  for (int i = 0; i < 55; ++i) {
    const std::string id = "attempt_pb" + std::to_string(100 + i);
    Directory directory = publish(state.fd(), id);
    listeners.emplace_back(listener(state / ("attempts/" + id + "/s"), i >= 50));
    (i < 50 ? stale : silent).push_back(std::move(directory));
  }
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& id : must(attempt::list_ids(state.fd()))) {
    CHECK(state_of(must(Directory::open(state.fd(), id))) == "needs-recovery:launcher-gone");
  }
  const auto limit = std::chrono::milliseconds(200);
  for (const Directory& directory : stale) {
    CHECK(code_of(Control::connect(directory, ControlSocket::supervisor, limit)) == "control-unreachable");
  }
  for (const Directory& directory : silent) {
    auto control = must(Control::connect(directory, ControlSocket::supervisor, limit));
    CHECK(code_of(control.status()) == "control-timeout");
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

TEST_CASE("without a token or a socket a supervisor is unreachable") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_c5");
  CHECK(code_of(Control::connect(directory, ControlSocket::supervisor)) == "control-unreachable");
  ::unlink((state / "attempts/attempt_c5/token").c_str());
  const Fd socket(listener(state / "attempts/attempt_c5/s"));
  CHECK(code_of(Control::connect(directory, ControlSocket::supervisor)) == "control-unreachable");
}
