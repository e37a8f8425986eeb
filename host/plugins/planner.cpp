#include "plugins/planner.hpp"

#include <fcntl.h>
#include <hitchrail/adapter.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/fd.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "plugins/plan_wire.hpp"

namespace hitchrail::plugins {

namespace {

constexpr std::uint64_t default_wall_ms = 30'000;
constexpr int poll_slice_ms = 50;  // how often the child's CPU time is looked at
constexpr int parked_fd = 10;      // above the child's own descriptors

Error fault(const char* code, const char* hook, std::string detail) {
  return {ErrorClass::failed,
          code,
          hook,
          hook,
          std::move(detail),
          "`hitchrail plugins check FILE` reproduces what this adapter does"};
}

// After fork: only async-signal-safe calls.
[[noreturn]] void become_runner(int runner_fd, int adapter_fd, int socket_fd, pid_t parent) {
  const int program = ::fcntl(runner_fd, F_DUPFD_CLOEXEC, parked_fd);
  const int adapter = ::fcntl(adapter_fd, F_DUPFD_CLOEXEC, parked_fd);
  const int socket = ::fcntl(socket_fd, F_DUPFD_CLOEXEC, parked_fd);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  bool good = program >= 0 && adapter >= 0 && socket >= 0 && null >= 0;
  for (int fd = 0; fd < 3; ++fd) {
    good = good && ::dup2(null, fd) == fd;
  }
  good = good && ::dup2(socket, plan_socket) == plan_socket && ::dup2(adapter, plan_adapter) == plan_adapter;
  // Everything else closes at exec: whatever the caller left open must not reach foreign code.
  good = good && ::syscall(SYS_close_range, 5u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0;
  good = good && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (good) {
    char name[] = "hitchrail-runner";
    char mode[] = "--plan";
    char* argv[] = {name, mode, nullptr};
    char* env[] = {nullptr};
    ::syscall(SYS_execveat, program, "", argv, env, 0x1000 /* AT_EMPTY_PATH */);
  }
  ::_exit(127);
}

std::uint64_t cpu_ms(pid_t pid) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return static_cast<std::uint64_t>(time.tv_sec) * 1000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1'000'000;
}

}  // namespace

struct Planner::State {
  pid_t pid = -1;
  Fd pidfd;
  Fd socket;
  PlannerLimits limits;
  AdapterInfo info;
  bool loaded = false;
  std::vector<std::string> logs;
  std::optional<Error> dead;
  std::uint64_t cpu_begin = 0;
  std::int64_t wall_begin = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { reap(); }

  // Kills and collects the child; its wait status.
  int reap() {
    int status = 0;
    if (pid > 0) {
      if (pidfd) {
        ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      }
      while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      pid = -1;
    }
    return status;
  }

  Error die(Error error) {
    socket.reset();
    reap();
    dead = error;
    return error;
  }

  Error crashed(const char* hook) {
    // The socket is closed, so the child is gone or going; a second is ample for a core-less exit.
    pollfd waiter{pidfd.get(), POLLIN, 0};
    const bool gone = ::poll(&waiter, 1, 1000) == 1;
    const int status = reap();
    socket.reset();
    std::string detail = "the planning runner ended without an answer";
    if (gone && WIFSIGNALED(status)) {
      detail =
          "ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
    } else if (gone && WIFEXITED(status)) {
      detail = "the process exited with code " + std::to_string(WEXITSTATUS(status));
    }
    dead = fault("adapter-crashed", hook, detail);
    return *dead;
  }

  void begin_clock() {
    cpu_begin = cpu_ms(pid);
    wall_begin = monotonic_nanos();
  }

  // Waits for the socket within the hook's budget.
  Status wait_for(short events, const char* hook) {
    for (;;) {
      pollfd waiter{socket.get(), events, 0};
      const int ready = ::poll(&waiter, 1, poll_slice_ms);
      if (ready > 0) {
        return {};
      }
      if (ready < 0 && errno != EINTR) {
        return die(errno_error("poll", "planning socket", errno));
      }
      const auto wall = static_cast<std::uint64_t>((monotonic_nanos() - wall_begin) / 1'000'000);
      const std::uint64_t cpu = cpu_ms(pid) - cpu_begin;
      if (cpu > limits.hook_cpu_ms) {
        return die(fault("adapter-watchdog", hook,
                         "used more than " + std::to_string(limits.hook_cpu_ms) + " ms of CPU"));
      }
      if (wall > limits.hook_wall_ms) {
        return die(fault("adapter-watchdog", hook,
                         "gave no answer for " + std::to_string(limits.hook_wall_ms) + " ms"));
      }
    }
  }

  Status send_bytes(std::string_view bytes, const char* hook) {
    while (!bytes.empty()) {
      HR_CHECK(wait_for(POLLOUT, hook));
      const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
        return crashed(hook);
      }
      if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        return die(errno_error("send", "planning socket", errno));
      }
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
    return {};
  }

  Status receive_bytes(char* out, std::size_t size, const char* hook) {
    while (size > 0) {
      HR_CHECK(wait_for(POLLIN, hook));
      const ssize_t got = ::recv(socket.get(), out, size, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) {
        return crashed(hook);
      }
      if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return die(errno_error("receive", "planning socket", errno));
      }
      if (got > 0) {
        out += got;
        size -= static_cast<std::size_t>(got);
      }
    }
    return {};
  }

  Result<json::Value> receive(const char* hook) {
    std::uint32_t size = 0;
    HR_CHECK(receive_bytes(reinterpret_cast<char*>(&size), sizeof(size), hook));
    if (size > max_plan_message) {
      return die(fault("adapter-protocol", hook, "the answer is larger than any answer may be"));
    }
    std::string text(size, '\0');
    HR_CHECK(receive_bytes(text.data(), text.size(), hook));
    auto reply = json::parse(text, json::Duplicates::refuse, "planning reply");
    if (reply.has_error()) {
      return die(fault("adapter-protocol", hook, reply.error().detail));
    }
    for (const auto& line : reply.value().get("logs").items()) {
      logs.push_back(line.as_string());
    }
    if (reply.value().find("error") != nullptr) {
      return error_from(reply.value().get("error"));
    }
    return std::move(reply).value();
  }

  Result<json::Value> ask(const json::Value& request, const char* hook) {
    if (dead) {
      return *dead;
    }
    begin_clock();
    const std::string text = json::write(request);
    if (text.size() > max_plan_message) {
      return Error{ErrorClass::usage, "request-too-large", hook, hook, "the request is over 64 MiB", ""};
    }
    const auto size = static_cast<std::uint32_t>(text.size());
    HR_CHECK(send_bytes({reinterpret_cast<const char*>(&size), sizeof(size)}, hook));
    HR_CHECK(send_bytes(text, hook));
    return receive(hook);
  }

  Result<ProbeReply> probe_reply(const json::Value& reply, const char* hook) {
    ProbeReply out;
    for (const auto& item : reply.get("steps").items()) {
      auto step = probe_step_from(item);
      if (step.has_error()) {
        return die(fault("adapter-protocol", hook, step.error().detail));
      }
      HR_CHECK(check_step(step.value()));
      out.steps.push_back(std::move(step).value());
    }
    if (const json::Value* result = reply.find("result")) {
      out.result_json = result->as_string();
    }
    return out;
  }
};

Planner::Planner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;
Planner::~Planner() = default;

Result<Planner> Planner::start(int runner_fd, int adapter_fd, const PlannerLimits& limits) {
  HR_TRY(planner, spawn(runner_fd, adapter_fd, limits));
  HR_CHECK(planner.ready());
  return planner;
}

Result<Planner> Planner::spawn(int runner_fd, int adapter_fd, const PlannerLimits& limits) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return errno_error("socketpair", "planning runner", errno);
  }
  auto state = std::make_unique<State>();
  state->socket.reset(pair[0]);
  Fd theirs(pair[1]);
  state->limits = {limits.hook_cpu_ms != 0 ? limits.hook_cpu_ms : HR_HOOK_CPU_MS,
                   limits.hook_wall_ms != 0 ? limits.hook_wall_ms : default_wall_ms};
  const pid_t parent = ::getpid();
  state->pid = ::fork();
  if (state->pid < 0) {
    return errno_error("fork", "planning runner", errno);
  }
  if (state->pid == 0) {
    become_runner(runner_fd, adapter_fd, theirs.get(), parent);
  }
  // Not reaped by anybody else before, so the number still names our child.
  state->pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, state->pid, 0)));
  if (!state->pidfd) {
    const int error = errno;
    ::kill(state->pid, SIGKILL);
    return errno_error("pidfd_open", "planning runner", error);
  }
  return Planner(std::move(state));
}

Status Planner::ready() {
  if (state_->loaded) {
    return {};
  }
  state_->begin_clock();
  auto hello = state_->receive("load");
  if (hello.has_error()) {
    Error error = hello.error();
    if (!state_->dead) {
      error.detail = error.code + ": " + error.detail;
      error.code = "adapter-load-failed";
    }
    return error;
  }
  const json::Value& adapter = hello.value().get("adapter");
  state_->info = {adapter.get("providerId").as_string(), adapter.get("displayName").as_string(),
                  adapter.get("version").as_string()};
  state_->loaded = true;
  return {};
}

const AdapterInfo& Planner::info() const {
  return state_->info;
}

std::vector<std::string> Planner::take_logs() {
  return std::exchange(state_->logs, {});
}

Result<ProbeReply> Planner::probe(std::string_view request_json) {
  json::Value request = json::Value::object();
  request.set("op", "probe");
  request.set("request", request_json);
  HR_TRY(reply, state_->ask(request, "probe"));
  return state_->probe_reply(reply, "probe");
}

Result<ProbeReply> Planner::probe_step(const ProbeStepResult& result) {
  json::Value request = json::Value::object();
  request.set("op", "probe_step");
  request.set("result", to_value(result));
  HR_TRY(reply, state_->ask(request, "on_probe_step"));
  return state_->probe_reply(reply, "on_probe_step");
}

Result<std::string> Planner::render(std::string_view envelope_json, std::uint32_t mode,
                                    std::string_view context_json) {
  json::Value request = json::Value::object();
  request.set("op", "render");
  request.set("envelope", envelope_json);
  request.set("mode", mode);
  request.set("context", context_json);
  HR_TRY(reply, state_->ask(request, "render"));
  auto text = base64_decode(reply.get("text").as_string());
  if (text.has_error()) {
    return state_->die(fault("adapter-protocol", "render", text.error().detail));
  }
  return text;
}

Result<PlannedLaunch> Planner::launch(std::string_view launch_json, std::uint32_t mode,
                                      std::string_view request_text) {
  json::Value request = json::Value::object();
  request.set("op", "launch");
  request.set("launch", launch_json);
  request.set("mode", mode);
  request.set("requestText", base64_encode(request_text));
  HR_TRY(reply, state_->ask(request, "launch"));
  auto plan = launch_plan_from(reply.get("plan"));
  auto snapshot = base64_decode(reply.get("snapshot").as_string());
  if (plan.has_error() || snapshot.has_error() || snapshot.value().size() > HR_MAX_SNAPSHOT) {
    return state_->die(fault("adapter-protocol", "launch", "the plan or its snapshot is malformed"));
  }
  HR_CHECK(check_plan(plan.value()));
  return PlannedLaunch{std::move(plan).value(), std::move(snapshot).value()};
}

}  // namespace hitchrail::plugins
