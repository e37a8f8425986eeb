#include "attempt/recover.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "attempt/control.hpp"
#include "attempt/derive.hpp"
#include "attempt/exit_slot.hpp"
#include "attempt/identity.hpp"
#include "core/file.hpp"
#include "core/text.hpp"

namespace hitchrail::attempt {
namespace {

constexpr auto kill_limit = std::chrono::milliseconds(10'000);
constexpr int finish_limit_ms = 300'000;  // beside the time of the verification gates
constexpr std::int64_t gates_limit_ms = 86'400'000;

void set_text(char* out, std::size_t size, std::string_view text) {
  std::memset(out, 0, size);
  std::memcpy(out, text.data(), std::min(text.size(), size - 1));
}

// Ends what is left of a process tree whose supervisor is dead; PDEATHSIG has usually done it before.
Status end_process(const ProcessIdentity& identity) {
  auto process = Process::open(identity);
  if (process.has_error()) {
    return process.error().code == "process-gone" ? Status{} : Status(process.error());
  }
  HR_CHECK(process.value().signal(SIGKILL));
  HR_TRY(gone, process.value().wait_gone(kill_limit));
  if (!gone) {
    return Error{ErrorClass::environment,
                 "recover-tree-alive",
                 "end process",
                 std::to_string(identity.pid),
                 "it has not ended ten seconds after SIGKILL",
                 "try again; a process in uninterruptible sleep ends by itself"};
  }
  return {};
}

// What is true of a run nobody supervises any more.
wire::ExitSlot settled(const Result<wire::ExitSlot>& seen) {
  wire::ExitSlot slot{};
  const auto cause = [&slot](const char* code, const char* detail) {
    if (slot.cause[0] == 0) {
      set_text(slot.cause, sizeof slot.cause, code);
      set_text(slot.cause_detail, sizeof slot.cause_detail, detail);
    }
  };
  if (seen.has_error()) {
    slot.kind = wire::kind_unknown;
    slot.source = wire::source_shim_lost;
    slot.state = wire::exit_ended;
    cause("exit-slot-damaged", "the record of the exit cannot be read");
    return slot;
  }
  slot = seen.value();
  const bool rebooted = slot.boot_id[0] != 0 && slot_text(slot.boot_id, sizeof slot.boot_id) != boot_id();
  switch (slot.state) {
    case wire::exit_prepared:
      cause("start-failed", rebooted ? "the machine restarted before the harness was started"
                                     : "the launch ended before the harness was started");
      break;
    case wire::exit_running:
      slot.kind = wire::kind_unknown;
      slot.source = wire::source_shim_lost;
      cause("supervisor-lost", rebooted ? "the machine restarted while the harness ran"
                                        : "the supervisor died while the harness ran");
      break;
    case wire::exit_exited:
      cause("supervisor-lost",
            "the supervisor died after the harness had exited and before its last output was recorded");
      break;
    default:
      break;
  }
  slot.state = wire::exit_ended;
  return slot;
}

}  // namespace

Status run_finisher(const Directory& directory, int finish_program) {
  const auto failed = [&directory](std::string detail) {
    return Error{ErrorClass::environment, "finish-failed",   "finish run",
                 directory.id(),          std::move(detail), "hitchrail runs recover " + directory.id()};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error("make pipe", "hitchrail-finish", errno);
  }
  const Fd words(ends[0]);
  Fd words_in(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  ::close(ends[1]);
  const Fd program(::fcntl(finish_program, F_DUPFD_CLOEXEC, 10));
  const Fd attempt(::fcntl(directory.fd(), F_DUPFD_CLOEXEC, 10));
  HR_TRY(null, open_at(AT_FDCWD, "/dev/null", O_RDWR));
  const Fd null_high(::fcntl(null.get(), F_DUPFD_CLOEXEC, 10));
  const pid_t pid = ::fork();
  if (pid < 0) {
    return errno_error("fork", "hitchrail-finish", errno);
  }
  if (pid == 0) {
    char name[] = "hitchrail-finish";
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char locale[] = "LC_ALL=C.UTF-8";
    char* const argv[] = {name, nullptr};
    char* const environment[] = {path, locale, nullptr};
    if (::dup2(null_high.get(), 0) == 0 && ::dup2(null_high.get(), 1) == 1 &&
        ::dup2(words_in.get(), 2) == 2 && ::dup2(attempt.get(), 3) == 3 && ::chdir("/") == 0) {
      ::syscall(SYS_execveat, program.get(), "", argv, environment, AT_EMPTY_PATH);
    }
    ::_exit(127);
  }
  words_in.reset();
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd watch{pidfd.get(), POLLIN, 0};
  const std::int64_t gates_ms = std::clamp<std::int64_t>(
      directory.header().get("gatesTimeoutMs").as_int().value_or(0), 0, gates_limit_ms);
  int ready = 0;
  do {
    ready = ::poll(&watch, 1, finish_limit_ms + static_cast<int>(gates_ms));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  char text[1024];
  (void)::fcntl(words.get(), F_SETFL, O_NONBLOCK);
  const ssize_t got = ::read(words.get(), text, sizeof text);
  std::string said = got > 0 ? escape_visible({text, static_cast<std::size_t>(got)}) : "";
  if (ready == 0) {
    return failed("the finisher took longer than five minutes beside its gates");
  }
  return failed("the finisher ended with " +
                (WIFEXITED(status) ? "code " + std::to_string(WEXITSTATUS(status))
                                   : "signal " + std::to_string(WTERMSIG(status))) +
                (said.empty() ? "" : ": " + said));
}

namespace {

// A dead supervisor's runner or finisher may live a moment longer and ends by itself.
Result<AttemptStatus> settled_status(const Directory& directory) {
  for (int turn = 0;; ++turn) {
    HR_TRY(now, status(directory));
    if (now.state != State::finishing || now.shim_pid != 0 || directory.locked() || turn == 100) {
      return now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
}

}  // namespace

Result<Recovery> recover(const Directory& directory, int finish_program) {
  Recovery out;
  HR_TRY(before, settled_status(directory));
  out.status = before;
  if (before.state != State::needs_recovery) {
    return out;
  }
  HR_TRY(lock, directory.lock(10'000));
  HR_TRY(now, derive_status(directory, true));  // somebody may have recovered it while this waited
  if (now.state != State::needs_recovery) {
    out.status = now;
    return out;
  }
  const auto slot = read_exit_slot(directory.fd());
  if (slot.has_error()) {
    // Who supervises cannot be read; a supervisor that lives answers.
    auto control = Control::connect(directory, ControlSocket::supervisor);
    if (control.has_value() && control.value().status().has_value()) {
      return Error{ErrorClass::failed,
                   "recover-supervised",
                   "recover run",
                   directory.id(),
                   "its supervisor lives although the exit record is damaged",
                   "hitchrail runs stop " + directory.id()};
    }
  }
  if (slot.has_value()) {
    HR_CHECK(end_process(init_identity(slot.value())));
    HR_CHECK(end_process(leader_identity(slot.value())));
  }
  const bool has_completion = completion(directory).has_value();
  if (!has_completion && (slot.has_error() || slot.value().state != wire::exit_ended)) {
    HR_CHECK(write_exit_slot(directory.fd(), settled(slot)));
  }
  HR_CHECK(run_finisher(directory, finish_program));
  HR_TRY(after, derive_status(directory, true));
  out.acted = true;
  out.status = after;
  return out;
}

}  // namespace hitchrail::attempt
