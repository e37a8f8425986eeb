// The leader: its environment, its fork and exec, and the life of init around it.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "init/init.hpp"
#include "init/kernel.hpp"

namespace hitchrail::init {
namespace {

constexpr std::size_t secrets_capacity = 1u << 20;
char* secrets = nullptr;         // SecretRecord list
char* secret_strings = nullptr;  // NAME=VALUE, one after the other
std::size_t secrets_size = 0;

char* memory(std::size_t size) {
  void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) {
    fail("memory", errno);
  }
  return static_cast<char*>(bytes);
}

void read_secrets() {
  secrets = memory(secrets_capacity);
  secret_strings = memory(secrets_capacity);
  // Not fatal: an ordinary user's limit on locked memory may be small.
  (void)mlock(secrets, secrets_capacity);
  (void)mlock(secret_strings, secrets_capacity);
  for (;;) {
    const ssize_t got = read(wire::init_secrets, secrets + secrets_size, secrets_capacity - secrets_size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail("secrets", errno);
    }
    if (got == 0) {
      return;
    }
    secrets_size += static_cast<std::size_t>(got);
    if (secrets_size == secrets_capacity) {
      fail("secrets", E2BIG);
    }
  }
}

// Writes NAME=VALUE at `out`; ends when the record is not there. Returns the end.
char* secret_value(const char* name, std::size_t name_size, char* out) {
  std::size_t at = 0;
  while (at + sizeof(wire::SecretRecord) <= secrets_size) {
    wire::SecretRecord record{};
    std::memcpy(&record, secrets + at, sizeof record);
    at += sizeof record;
    const std::size_t rest = secrets_size - at;
    if (record.name_size > rest || record.value_size > rest - record.name_size) {
      break;
    }
    const char* value = secrets + at + record.name_size;
    const bool same = record.name_size == name_size && std::memcmp(secrets + at, name, name_size) == 0;
    if (same && std::memchr(value, 0, record.value_size) == nullptr) {
      std::memcpy(out, name, name_size);
      out[name_size] = '=';
      std::memcpy(out + name_size + 1, value, record.value_size);
      out[name_size + 1 + record.value_size] = '\0';
      return out + name_size + 1 + record.value_size + 1;
    }
    at += record.name_size + record.value_size;
  }
  fail("secrets", ENOENT, name);
}

void apply_limits(const Plan& plan) {
  const auto* limits = plan.items<plan::Rlimit>(plan.header->rlimits);
  for (std::uint32_t i = 0; i < plan.header->rlimits.count; ++i) {
    rlimit value{limits[i].soft, limits[i].hard};
    rlimit now{};
    const auto resource = static_cast<__rlimit_resource>(limits[i].resource);
    if (getrlimit(resource, &now) == 0) {  // a limit is never raised
      value.rlim_max = value.rlim_max < now.rlim_max ? value.rlim_max : now.rlim_max;
      value.rlim_cur = value.rlim_cur < value.rlim_max ? value.rlim_cur : value.rlim_max;
    }
    if (setrlimit(resource, &value) < 0) {
      fail("limits", errno);
    }
  }
}

std::int64_t nanos(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int open_executable(const Plan& plan) {
  const int fd = open_place(plan, plan.header->executable, "executable", false);
  struct stat info {};
  if (fstat(fd, &info) < 0) {
    fail("executable", errno);
  }
  const plan::FileIdentity& expected = plan.header->identity;
  if (!S_ISREG(info.st_mode) || (expected.dev != 0 && info.st_dev != expected.dev) ||
      info.st_ino != expected.ino || static_cast<std::uint64_t>(info.st_size) != expected.size ||
      nanos(info.st_mtim) != expected.mtime_ns || nanos(info.st_ctim) != expected.ctime_ns) {
    fail("executable-changed", ESTALE, plan.text(plan.header->program));
  }
  return fd;
}

[[noreturn]] void lead(const Plan& plan, char** environment, int ruleset, int init_pid) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != init_pid) {
    fail("parent", ESRCH);
  }
  if (setsid() < 0) {
    fail("session", errno);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int directory = open_place(plan, plan.header->cwd, "cwd", true);
  if (fchdir(directory) < 0) {
    fail("cwd", errno, plan.text(plan.header->cwd.relative));
  }
  const plan::Header& header = *plan.header;
  const int executable = header.argv.count > 0 ? open_executable(plan) : -1;
  if (dup2(wire::init_stdin, 0) < 0 || dup2(wire::init_stdout, 1) < 0 || dup2(wire::init_stderr, 2) < 0) {
    fail("streams", errno);
  }
  if (syscall(SYS_close_range, 3u, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */) < 0) {
    fail("close-on-exec", errno);
  }
  auto** argv = reinterpret_cast<char**>(memory((header.argv.count + 1) * sizeof(char*)));
  const auto* arguments = plan.items<plan::String>(header.argv);
  for (std::uint32_t i = 0; i < header.argv.count; ++i) {
    argv[i] = const_cast<char*>(plan.text(arguments[i]));
  }
  umask(header.umask);
  apply_limits(plan);
  enter_landlock(ruleset);
  load_filter(plan);
  if (header.argv.count == 0) {
    _exit(0);  // a plan without a program only tries the boundary
  }
  if (plan.has(plan::exec_by_path)) {
    execve(plan.text(header.program), argv, environment);
  } else {
    syscall(SYS_execveat, executable, "", argv, environment, AT_EMPTY_PATH);
  }
  fail("exec", errno, plan.text(header.program));
}

void report_failure(const Failure& failure, int leader) {
  int status = 0;
  waitpid(leader, &status, 0);
  fail(failure.step, failure.error_number, failure.detail);
}

void kill_children() {
  // Orphans come to init (pid 1, or subreaper), so killing direct children again and again ends the tree.
  // Whoever waits for this program gives it three seconds.
  for (int pass = 0; pass < 2000; ++pass) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    static char list[65536];
    const ssize_t got = fd >= 0 ? read(fd, list, sizeof list - 1) : -1;
    if (fd >= 0) {
      close(fd);
    }
    list[got > 0 ? got : 0] = '\0';
    for (char* at = list; *at != '\0';) {
      const long pid = std::strtol(at, &at, 10);
      if (pid <= 0) {
        break;
      }
      kill(static_cast<pid_t>(pid), SIGKILL);
    }
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) {
      return;
    }
    usleep(1000);
  }
}

[[noreturn]] void end_tree(const Plan& plan) {
  if (!plan.has(plan::pid_namespace)) {
    kill_children();
  }
  _exit(0);  // pid 1: the kernel ends everybody in the namespace
}

void reap(const Plan& plan, int leader) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != leader) {
      continue;
    }
    wire::InitMessage message{};
    message.type = wire::init_child_exited;
    message.child = 0;
    message.wait_status = status;
    message.pid = pid;
    send_message(message);
    if (plan.has(plan::end_with_leader)) {
      end_tree(plan);
    }
  }
}

}  // namespace

char** build_environment(const Plan& plan) {
  const plan::Header& header = *plan.header;
  const std::size_t count = header.env.count + header.secret_env.count;
  auto** environment = reinterpret_cast<char**>(memory((count + 1) * sizeof(char*)));
  std::size_t next = 0;
  const auto* plain = plan.items<plan::String>(header.env);
  for (std::uint32_t i = 0; i < header.env.count; ++i) {
    environment[next++] = const_cast<char*>(plan.text(plain[i]));
  }
  if (header.secret_env.count > 0) {
    read_secrets();
    char* out = secret_strings;
    const auto* names = plan.items<plan::String>(header.secret_env);
    for (std::uint32_t i = 0; i < header.secret_env.count; ++i) {
      environment[next++] = out;
      out = secret_value(plan.text(names[i]), names[i].size, out);
    }
  }
  close(wire::init_secrets);
  return environment;
}

void wipe_environment() {
  if (secrets != nullptr) {
    explicit_bzero(secrets, secrets_capacity);
    explicit_bzero(secret_strings, secrets_capacity);
    munmap(secrets, secrets_capacity);
    munmap(secret_strings, secrets_capacity);
  }
}

int start_leader(const Plan& plan, char** environment, int ruleset) {
  int go[2];
  int failures[2];
  if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failures, O_CLOEXEC) < 0) {
    fail("fork", errno);
  }
  const int init_pid = getpid();
  const int self = static_cast<int>(syscall(SYS_pidfd_open, init_pid, 0));
  int leader_fd = -1;
  const long leader = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &leader_fd, nullptr, nullptr);
  if (leader < 0 || self < 0) {
    fail("fork", errno);
  }
  if (leader == 0) {
    fail_through(failures[1]);
    close(go[1]);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) {
      _exit(127);  // init is gone
    }
    lead(plan, environment, ruleset, init_pid);
  }
  close(failures[1]);
  close(go[0]);
  wipe_environment();
  wire::InitMessage message{};
  message.type = wire::init_started;
  message.pid = static_cast<std::int32_t>(leader);
  const int fds[] = {self, leader_fd};
  send_message(message, fds, 2);
  (void)!write(go[1], "g", 1);
  close(go[1]);
  Failure failure{};
  ssize_t got = 0;
  while ((got = read(failures[0], &failure, sizeof failure)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof failure)) {
    report_failure(failure, static_cast<int>(leader));
  }
  close(failures[0]);
  close(self);
  close(leader_fd);
  message = {};
  message.type = wire::init_execed;
  message.pid = static_cast<std::int32_t>(leader);
  send_message(message);
  return static_cast<int>(leader);
}

void supervise(const Plan& plan, int leader) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) {
    fail("supervise", errno);
  }
  reap(plan, leader);  // what ended before the signal was blocked
  for (;;) {
    pollfd entries[] = {{signals, POLLIN, 0}, {wire::init_socket, 0, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) {
      end_tree(plan);
    }
    if ((entries[0].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      while (read(signals, &info, sizeof info) > 0) {
      }
      reap(plan, leader);
    }
    if ((entries[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      end_tree(plan);
    }
  }
}

}  // namespace hitchrail::init
