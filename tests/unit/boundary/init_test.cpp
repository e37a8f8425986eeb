// hitchrail-init as a shim drives it: its messages, secrets, death, and the memory it costs.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "kernel/world.hpp"
#include "shim/wire.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::becomes;
using hitchrail::test::World;

namespace {

struct Message {
  wire::InitMessage text{};
  std::vector<int> fds;
  bool closed = false;
};

// A stand-in for the shim: starts init with the descriptors of wire::InitFd.
class Init {
 public:
  Init(int plan, const std::string& secrets) {
    int pair[2];
    int secret_pipe[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    REQUIRE(pipe2(secret_pipe, O_CLOEXEC) == 0);
    const std::string path = init_path().value();
    pid_ = fork();
    if (pid_ == 0) {
      const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
      const int sources[] = {plan, pair[1], null, null, null, secret_pipe[0]};
      int copies[6];
      for (int i = 0; i < 6; ++i) {
        copies[i] = fcntl(sources[i], F_DUPFD_CLOEXEC, 100);
      }
      for (int i = 0; i < 6; ++i) {
        dup2(copies[i], 3 + i);
      }
      execl(path.c_str(), "hitchrail-init", nullptr);
      _exit(126);
    }
    close(pair[1]);
    close(secret_pipe[0]);
    socket_ = pair[0];
    (void)!write(secret_pipe[1], secrets.data(), secrets.size());
    close(secret_pipe[1]);
  }
  ~Init() {
    close(socket_);
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    while (waitpid(-pid_, nullptr, 0) > 0) {
    }
  }
  Init(const Init&) = delete;
  Init& operator=(const Init&) = delete;

  Message next() {
    Message message;
    pollfd entry{socket_, POLLIN, 0};
    REQUIRE(poll(&entry, 1, 10'000) == 1);
    iovec part{&message.text, sizeof message.text};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    message.closed = recvmsg(socket_, &header, MSG_CMSG_CLOEXEC) <= 0;
    if (const cmsghdr* rights = message.closed ? nullptr : CMSG_FIRSTHDR(&header)) {
      message.fds.resize((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      std::memcpy(message.fds.data(), CMSG_DATA(rights), message.fds.size() * sizeof(int));
    }
    return message;
  }
  [[nodiscard]] bool silent(int ms) const {
    pollfd entry{socket_, POLLIN, 0};
    return poll(&entry, 1, ms) == 0;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

std::string secret(const std::string& name, const std::string& value) {
  const wire::SecretRecord record{static_cast<std::uint32_t>(name.size()),
                                  static_cast<std::uint32_t>(value.size())};
  return std::string(reinterpret_cast<const char*>(&record), sizeof record) + name + value;
}

Fd plan_of(const World& world, Backend backend, const std::string& script,
           const std::vector<std::string>& secrets = {}) {
  const Compiled compiled = world.compiled(backend);
  Command command = world.shell(compiled, script);
  command.secret_env = secrets;
  auto plan = flat_plan(compiled, world.run(), command);
  REQUIRE(plan.has_value());
  return sealed_memfd("plan", plan.value()).value();
}

long pid_of(int pidfd) {
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(pidfd));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string info = text.str();
  return std::atol(info.c_str() + info.find("Pid:") + 4);
}

long private_kib(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string line;
  long total = 0;
  while (std::getline(file, line)) {
    if (line.rfind("Private_", 0) == 0) {
      total += std::atol(line.c_str() + line.find(':') + 1);
    }
  }
  return total;
}

}  // namespace

TEST_CASE("init says started with two pidfds, execed, and the raw status; it lives on until it is killed") {
  for (const Backend backend : World::backends()) {
    const World world;
    const Fd plan = plan_of(world, backend, "sleep 0.3; exit 5");
    Init init(plan.get(), "");
    Message message = init.next();
    CHECK(message.text.type == wire::init_started);
    REQUIRE(message.fds.size() == 2);
    const std::vector<int> fds = message.fds;
    CHECK(pid_of(fds[0]) > 0);
    CHECK(pid_of(fds[1]) > 0);
    message = init.next();
    CHECK(message.text.type == wire::init_execed);
    if (geteuid() == 0 && backend == Backend::native) {
      const long kib = private_kib(pid_of(fds[0]));
      std::printf("hitchrail-init: %ld KiB private\n", kib);
      CHECK(kib > 0);
      CHECK(kib < 1024);  // half of what shim and init may cost together
    }
    message = init.next();
    CHECK(message.text.type == wire::init_child_exited);
    CHECK(message.text.child == 0);
    CHECK(WIFEXITED(message.text.wait_status));
    CHECK(WEXITSTATUS(message.text.wait_status) == 5);
    CHECK(init.silent(300));
    REQUIRE(syscall(SYS_pidfd_send_signal, fds[0], SIGKILL, nullptr, 0) == 0);
    CHECK(init.next().closed);
    close(fds[0]);
    close(fds[1]);
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}

TEST_CASE("init is the caller's own child, as pid 1 too") {
  const World world;
  const Fd plan = plan_of(world, Backend::native, "sleep 5");
  Init init(plan.get(), "");
  Message message = init.next();
  REQUIRE(message.fds.size() == 2);
  std::ifstream file("/proc/" + std::to_string(pid_of(message.fds[0])) + "/stat");
  std::string text;
  std::getline(file, text);
  CHECK(std::atoi(text.c_str() + text.rfind(')') + 4) == getpid());
  close(message.fds[0]);
  close(message.fds[1]);
}

TEST_CASE("secret values reach the environment by name, and only those the plan names") {
  for (const Backend backend : World::backends()) {
    const World world;
    const Fd plan = plan_of(world, backend, "echo \"$KEY|$OTHER\" > src/seen", {"KEY"});
    Init init(plan.get(), secret("OTHER", "no") + secret("KEY", "s3cret") + secret("LAST", ""));
    while (init.next().text.type != wire::init_child_exited) {
    }
    CHECK(world.read(world.path("tree/src/seen")) == "s3cret|\n");
  }
}

TEST_CASE("a secret that does not come is a failure by name, and nothing was started") {
  const World world;
  const Fd plan = plan_of(world, Backend::native, "touch src/started", {"KEY"});
  Init init(plan.get(), secret("OTHER", "x"));
  const Message message = init.next();
  CHECK(message.text.type == wire::init_failed);
  CHECK(std::string(message.text.step) == "secrets");
  CHECK(message.text.error_number == ENOENT);
  CHECK(std::string(message.text.detail) == "KEY");
  CHECK(init.next().closed);
  CHECK(world.read(world.path("tree/src/started")).empty());
}

TEST_CASE("a plan that could still be changed, or is damaged, is refused before anything else") {
  const int open_plan = memfd_create("plan", MFD_CLOEXEC);
  REQUIRE(ftruncate(open_plan, 4096) == 0);
  Init unsealed(open_plan, "");
  Message message = unsealed.next();
  CHECK(message.text.type == wire::init_failed);
  CHECK(std::string(message.text.step) == "plan");
  close(open_plan);
  const Fd garbage = sealed_memfd("plan", std::string(4096, 'x')).value();
  Init damaged(garbage.get(), "");
  message = damaged.next();
  CHECK(message.text.type == wire::init_failed);
  CHECK(std::string(message.text.detail) == "magic");
}

TEST_CASE("a launcher that dies takes init and everything below it along, in both backends") {
  for (const Backend backend : World::backends()) {
    const World world;
    const std::string token = "34" + std::to_string(getpid()) + (backend == Backend::native ? "1" : "2");
    const pid_t launcher = fork();
    if (launcher == 0) {
      const Fd plan = plan_of(world, backend, "sleep " + token + "; :");
      Init init(plan.get(), "");
      (void)init.next();
      pause();
    }
    for (int i = 0; i < 1000 && hitchrail::test::processes_with(token) < 2; ++i) {
      usleep(10'000);
    }
    CHECK(hitchrail::test::processes_with(token) >= 2);
    kill(launcher, SIGKILL);
    waitpid(launcher, nullptr, 0);
    CHECK(becomes(token, 0));
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}
