#include "gate/helper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "core/file.hpp"
#include "core/ids.hpp"
#include "gate/listeners.hpp"

namespace hitchrail::gate {
namespace {

constexpr std::uint32_t max_quick_deaths = 12;
constexpr std::int64_t second = 1'000'000'000;

struct SpawnActions {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnActions() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};

Status check_listeners(const Compiled& compiled, const std::vector<Fd>& listeners) {
  const auto wrong = [](std::string object, std::string detail) {
    return Error{ErrorClass::environment, "gate-listener",   "start gate",
                 std::move(object),       std::move(detail), "Run: hitchrail doctor"};
  };
  std::uint64_t own = 0;
  if (!own_netns_cookie(own)) {
    return wrong("kernel", "this kernel cannot tell network namespaces apart (Linux 5.14 can)");
  }
  if (listeners.size() != compiled.listeners.size()) {
    return wrong("listeners", "another number of sockets came than was asked for");
  }
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    if (const char* why = wrong_listener(listeners[i].get(), compiled.listeners[i], own)) {
      return wrong(endpoint_text(compiled.listeners[i]), why);
    }
  }
  return {};
}

}  // namespace

Result<std::string> program_path() {
  std::vector<std::string> candidates;
  if (const char* folder = std::getenv("HITCHRAIL_LIBEXEC")) {
    candidates.push_back(std::string(folder) + "/hitchrail-gate");
  } else {
    char buffer[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
    std::string self(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
    self.resize(self.rfind('/') == std::string::npos ? 0 : self.rfind('/'));
    candidates = {self + "/hitchrail-gate", self + "/../libexec/hitchrail/hitchrail-gate"};
  }
  for (const std::string& path : candidates) {
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return Error{ErrorClass::environment,
               "gate-missing",
               "find hitchrail-gate",
               candidates.front(),
               "The program that lets a run reach its provider is not installed.",
               "Install Hitchrail completely: ./quickstart"};
}

Helper::Helper(Helper&& other) noexcept
    : program_(std::move(other.program_)),
      document_(std::move(other.document_)),
      listeners_(std::move(other.listeners_)),
      events_(std::move(other.events_)),
      on_record_(std::move(other.on_record_)),
      pid_(std::exchange(other.pid_, -1)),
      started_(other.started_),
      due_(other.due_),
      restarts_(other.restarts_),
      quick_deaths_(other.quick_deaths_) {}

Helper::~Helper() {
  end();
}

Result<Helper> Helper::start(const Compiled& compiled, std::vector<Fd> listeners, std::string program,
                             OnRecord on_record) {
  HR_CHECK(check_listeners(compiled, listeners));
  Helper helper;
  if (program.empty()) {
    HR_TRY(path, program_path());
    program = std::move(path);
  }
  HR_TRY(document, sealed_memfd("hitchrail-gate-policy", compiled.document));
  helper.program_ = std::move(program);
  helper.document_ = std::move(document);
  helper.listeners_ = std::move(listeners);
  helper.on_record_ = std::move(on_record);
  HR_CHECK(helper.spawn());
  return helper;
}

Status Helper::spawn() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
    return errno_error("make socket pair", "gate", errno);
  }
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) {
    return errno_error("open", "/dev/null", errno);
  }
  std::vector<int> sources = {document_.get(), theirs.get()};
  for (const Fd& listener : listeners_) {
    sources.push_back(listener.get());
  }
  // Copies above the fixed numbers, so that no dup2 below overwrites what a later one needs.
  std::vector<Fd> copies;
  SpawnActions spawn;
  int target = gatewire::gate_policy;
  for (const int source : sources) {
    copies.emplace_back(fcntl(source, F_DUPFD_CLOEXEC, 64));
    if (!copies.back()) {
      return errno_error("duplicate descriptor", "gate", errno);
    }
    posix_spawn_file_actions_adddup2(&spawn.actions, copies.back().get(), target++);
  }
  Fd null_copy(fcntl(null.get(), F_DUPFD_CLOEXEC, 64));
  for (int fd = 0; fd < 3; ++fd) {
    posix_spawn_file_actions_adddup2(&spawn.actions, null_copy.get(), fd);
  }
  // A terminal's Ctrl-C is the program's, not the gate's.
  posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  char name[] = "hitchrail-gate";
  char* argv[] = {name, nullptr};
  char* env[] = {nullptr};
  const int error = posix_spawn(&pid_, program_.c_str(), &spawn.actions, &spawn.attributes, argv, env);
  if (error != 0) {
    pid_ = -1;
    return errno_error("start hitchrail-gate", program_, error);
  }
  events_ = std::move(ours);
  started_ = monotonic_nanos();
  return {};
}

void Helper::take_records() {
  while (events_) {
    gatewire::Record record{};
    const ssize_t got = recv(events_.get(), &record, sizeof record, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {
      return;
    }
    if (got <= 0) {
      died();
      return;
    }
    if (got == static_cast<ssize_t>(sizeof record) && on_record_) {
      on_record_(record);
    }
  }
}

void Helper::died() {
  events_.reset();
  if (pid_ > 0) {
    kill(pid_, SIGKILL);  // it closed its end, or is about to be gone; a child of ours until it is waited for
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  const std::int64_t now = monotonic_nanos();
  quick_deaths_ = now - started_ > 10 * second ? 1 : quick_deaths_ + 1;
  if (quick_deaths_ >= max_quick_deaths) {
    listeners_.clear();
    due_ = 0;
    return;
  }
  const std::int64_t wait = quick_deaths_ == 1 ? 0 : (second / 100) << quick_deaths_;
  due_ = now + (wait > 2 * second ? 2 * second : wait);
}

void Helper::tend() {
  take_records();
  if (!events_ && due_ != 0 && monotonic_nanos() >= due_) {
    due_ = 0;
    ++restarts_;
    if (spawn().has_error()) {
      died();
    }
  }
}

void Helper::end() {
  if (pid_ > 0 && events_) {
    shutdown(events_.get(), SHUT_WR);
    const std::int64_t deadline = monotonic_nanos() + second / 4;
    pid_t left = pid_;
    while (events_ && monotonic_nanos() < deadline) {
      pollfd entry{events_.get(), POLLIN, 0};
      poll(&entry, 1, 20);
      take_records();
    }
    if (pid_ == left) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  pid_ = -1;
  due_ = 0;
  events_.reset();
  listeners_.clear();
}

}  // namespace hitchrail::gate
