// Every attack of attacks/ is run five ways: without a boundary (it must get through, else the test shows
// nothing), in both backends, and below each layer alone. What is printed at the end is the table of
// docs/operators/boundary.md.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/ids.hpp"
#include "init/plan.hpp"
#include "kernel/table.hpp"
#include "kernel/world.hpp"

namespace hitchrail::test {
namespace {

using boundary::Backend;
using Environment = std::vector<std::pair<std::string, std::string>>;

// A copy elsewhere when the build folder cannot be entered by the user of this test (as_user.sh).
std::string attack_folder() {
  const char* copy = std::getenv("HITCHRAIL_TEST_ATTACKS");
  return copy != nullptr ? copy : HITCHRAIL_BINARY_DIR "/bin/attacks";
}
const std::string programs = attack_folder();

// What there is outside to attack.
class Targets {
 public:
  explicit Targets(const World& world) {
    outsider_ = fork();
    if (outsider_ == 0) {
      pause();
      _exit(0);
    }
    abstract_name_ = random_id("hitchrail-test-", 12);
    sockaddr_un abstract{};
    abstract.sun_family = AF_UNIX;
    std::memcpy(abstract.sun_path + 1, abstract_name_.data(), abstract_name_.size());
    listen_at(AF_UNIX, &abstract, offsetof(sockaddr_un, sun_path) + 1 + abstract_name_.size());
    sockaddr_un named{};
    named.sun_family = AF_UNIX;
    std::strncpy(named.sun_path, (world.outside() + "/socket").c_str(), sizeof named.sun_path - 1);
    listen_at(AF_UNIX, &named, sizeof named);
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int tcp = listen_at(AF_INET, &loopback, sizeof loopback);
    socklen_t size = sizeof loopback;
    REQUIRE(getsockname(tcp, reinterpret_cast<sockaddr*>(&loopback), &size) == 0);
    port_ = ntohs(loopback.sin_port);
    key_ = static_cast<key_t>(0x48520000 + (getpid() & 0xffff));
    segment_ = shmget(key_, 4096, IPC_CREAT | 0600);
    REQUIRE(segment_ >= 0);
    // Not close-on-exec: what a careless launcher leaves open.
    REQUIRE(dup2(open((world.outside() + "/secret").c_str(), O_RDWR), 60) == 60);
  }
  ~Targets() {
    kill(outsider_, SIGKILL);
    waitpid(outsider_, nullptr, 0);
    shmctl(segment_, IPC_RMID, nullptr);
    for (const int fd : listeners_) {
      close(fd);
    }
    close(60);
  }
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  [[nodiscard]] Environment environment(const World& world) const {
    return {{"HR_WORKTREE", world.worktree()},       {"HR_OUTSIDE", world.outside()},
            {"HR_READABLE", world.path("readable")}, {"HR_OUTSIDER", std::to_string(outsider_)},
            {"HR_ABSTRACT", abstract_name_},         {"HR_PORT", std::to_string(port_)},
            {"HR_SHM", std::to_string(key_)}};
  }

 private:
  int listen_at(int family, const void* address, std::size_t size) {
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0);
    REQUIRE(bind(fd, static_cast<const sockaddr*>(address), static_cast<socklen_t>(size)) == 0);
    REQUIRE(listen(fd, 16) == 0);
    listeners_.push_back(fd);
    return fd;
  }

  pid_t outsider_ = -1;
  std::string abstract_name_;
  int port_ = 0;
  key_t key_ = 0;
  int segment_ = -1;
  std::vector<int> listeners_;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// The positive control: the program as a plain child.
std::string run_plain(const std::string& program, const Environment& environment) {
  int out[2];
  REQUIRE(pipe(out) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 1);
    close(out[0]);
    for (const auto& [name, value] : environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    execl(program.c_str(), program.c_str(), nullptr);
    _exit(127);
  }
  close(out[1]);
  std::string text;
  char buffer[256];
  ssize_t got = 0;
  while ((got = read(out[0], buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(out[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? std::string("killed ") + sigabbrev_np(WTERMSIG(status)) : first_line(text);
}

enum class Layers { all, capabilities, namespaces, landlock, seccomp };

void keep_layers(std::string& bytes, Layers layers) {
  plan::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (layers == Layers::capabilities || layers == Layers::namespaces || layers == Layers::seccomp) {
    header.landlock_fs = header.landlock_scoped = 0;
    header.rules.count = 0;
  }
  if (layers == Layers::capabilities || layers == Layers::namespaces || layers == Layers::landlock) {
    header.filter.count = 0;
  }
  std::memcpy(bytes.data(), &header, sizeof header);
}

std::string run_inside(const Attack& attack, Backend backend, Layers layers) {
  World world;
  std::filesystem::create_directory(world.path("readable"));
  world.write(world.path("readable/file"), "text\n");
  const Targets targets(world);
  boundary::Roots roots = world.roots(programs);
  roots.read.push_back(boundary::resolve_root(world.path("readable")).value());
  boundary::Preset preset = world.preset();
  preset.network = attack.without_network ? boundary::Network::none : boundary::Network::host;
  auto compiled = boundary::compile(preset, roots, World::machine(), {.backend = backend});
  REQUIRE(compiled.has_value());
  const Status admitted = boundary::admit(compiled.value());
  INFO((admitted.has_error() ? admitted.error().code + ": " + admitted.error().detail : ""));
  REQUIRE(admitted.has_value());
  REQUIRE(boundary::make_placeholders(compiled.value(), world.attempt()).has_value());
  boundary::Command command;
  command.executable = boundary::resolve_executable(programs + "/" + attack.name).value();
  command.argv = {attack.name};
  command.env = targets.environment(world);
  command.end_with_leader = true;
  auto plan = boundary::flat_plan(compiled.value(), world.run(), command);
  REQUIRE(plan.has_value());
  keep_layers(plan.value(), layers);
  auto output = boundary::run_plan(plan.value(), {});
  INFO((output.has_error() ? output.error().object + ": " + output.error().detail : ""));
  REQUIRE(output.has_value());
  REQUIRE(boundary::remove_placeholders(world.attempt()).has_value());
  if (output.value().end == boundary::RunOutput::End::signaled) {
    return std::string("killed ") + sigabbrev_np(output.value().value);
  }
  return first_line(output.value().out);
}

std::string run_control(const Attack& attack) {
  World world;
  std::filesystem::create_directory(world.path("readable"));
  world.write(world.path("readable/file"), "text\n");
  const Targets targets(world);
  return run_plain(programs + "/" + attack.name, targets.environment(world));
}

std::string layers_alone(const Attack& attack) {
  std::string letters;
  const auto stops = [&](Backend backend, Layers layers) {
    return run_inside(attack, backend, layers) != "through";
  };
  letters += stops(Backend::landlock, Layers::capabilities) ? "C" : "";
  letters += stops(Backend::native, Layers::namespaces) ? "N" : "";
  letters += stops(Backend::landlock, Layers::landlock) ? "L" : "";
  letters += stops(Backend::landlock, Layers::seccomp) ? "S" : "";
  return letters;
}

}  // namespace

TEST_CASE("every attack works without a boundary, and each backend gives it its exact answer") {
  // The whole table is of ABI 6 and newer. Before, Landlock has no scopes, and only what native holds without
  // them is judged.
  const bool whole = World::machine().landlock_abi >= 6;
  if (!whole) {
    WARN("this kernel's Landlock is older than ABI 6: only the native column is judged");
  }
  const bool root = geteuid() == 0;
  for (unsigned i = 0; i < attack_count; ++i) {
    const Attack& attack = attacks[i];
    const Expected& expected = root ? attack.root : attack.user;
    INFO(attack.name);
    const std::string control = run_control(attack);
    if (root || attack.control == Control::works) {
      CHECK(control == "through");
    } else if (attack.control == Control::needs_root) {
      CHECK(control != "through");  // else the row would claim too little
    }
    const std::string native = run_inside(attack, Backend::native, Layers::all);
    if (!whole) {
      const std::string_view name = attack.name;
      CHECK((native == expected.native || name == "signal_parent" || name == "abstract_socket"));
      continue;
    }
    const std::string landlock = run_inside(attack, Backend::landlock, Layers::all);
    const std::string alone = layers_alone(attack);
    std::printf("%-28s %-22s %-22s %-22s %s\n", attack.name, control.c_str(), native.c_str(),
                landlock.c_str(), alone.c_str());
    std::fflush(stdout);
    CHECK(native == expected.native);
    CHECK(landlock == expected.landlock);
    if (control == "through" || attack.control != Control::kernel_setting) {
      CHECK(alone == expected.alone);
    }
  }
}

}  // namespace hitchrail::test
