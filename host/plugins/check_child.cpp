#include "plugins/check_child.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/fd.hpp"
#include "core/ids.hpp"
#include "plugins/check_wire.hpp"

namespace hitchrail::plugins {
namespace {

constexpr int poll_ms = 5;
constexpr int exec_failed = 126;
// Also when hooks keep beginning: a whole check of a sound adapter takes milliseconds.
constexpr std::int64_t child_limit_nanos = 120LL * 1'000'000'000;

struct Inherited {
  int runner, adapter, page, null, out, err;
};

// Between fork and exec: system calls only.
[[noreturn]] void become_child(const Inherited& from) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // First above all targets, so that no dup2 overwrites a source.
  constexpr int above = 16;
  std::array<int, 5> sources = {from.null, from.out, from.err, from.adapter, from.page};
  for (int& source : sources) {
    source = ::fcntl(source, F_DUPFD_CLOEXEC, above);
  }
  const int runner = ::fcntl(from.runner, F_DUPFD_CLOEXEC, above);
  constexpr std::array<int, 5> targets = {0, 1, 2, check_adapter_fd, check_page_fd};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (::dup2(sources[i], targets[i]) < 0) {
      ::_exit(exec_failed);
    }
  }
  ::syscall(SYS_close_range, check_page_fd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  std::array<char*, 3> argv = {const_cast<char*>("hitchrail-runner"), const_cast<char*>("--check"), nullptr};
  std::array<char*, 1> env = {nullptr};
  ::fexecve(runner, argv.data(), env.data());
  ::_exit(exec_failed);
}

Result<ChildEnd> reap(int pidfd, bool timed_out) {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    return errno_error("wait for checker", "hitchrail-runner", errno);
  }
  return ChildEnd{timed_out, info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace

Result<ChildEnd> run_check_child(int runner_fd, int adapter_fd, int page_fd, std::uint32_t step_ms,
                                 const std::atomic<std::uint32_t>& calls) {
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd out(::memfd_create("hitchrail-check-stdout", MFD_CLOEXEC));
  const Fd err(::memfd_create("hitchrail-check-stderr", MFD_CLOEXEC));
  if (!null || !out || !err) {
    return errno_error("start checker", "descriptors", errno);
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    return errno_error("start checker", "fork", errno);
  }
  if (pid == 0) {
    become_child({runner_fd, adapter_fd, page_fd, null.get(), out.get(), err.get()});
  }
  // The child is ours and not yet reaped, so its pid cannot be another's.
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!pidfd) {
    const int error_number = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return errno_error("start checker", "pidfd_open", error_number);
  }
  std::uint32_t seen = calls.load();
  const std::int64_t begin = monotonic_nanos();
  std::int64_t since = begin;
  for (;;) {
    pollfd wait{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, poll_ms);
    if (ready > 0) {
      return reap(pidfd.get(), false);
    }
    const std::int64_t now = monotonic_nanos();
    if (calls.load() != seen) {
      seen = calls.load();
      since = now;
    }
    const bool hook_is_late = now - since > std::int64_t{step_ms} * 1'000'000;
    if (hook_is_late || now - begin > child_limit_nanos) {
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0U);
      return reap(pidfd.get(), true);
    }
  }
}

}  // namespace hitchrail::plugins
