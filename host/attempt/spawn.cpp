#include "attempt/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "attempt/exit_slot.hpp"
#include "attempt/identity.hpp"
#include "core/file.hpp"
#include "shim/slot.hpp"

namespace hitchrail::attempt {
namespace {

constexpr int high_fd = 64;  // all descriptors are first moved above the fixed numbers they will get

template <class T>
void append_struct(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Error start_error(const char* code, std::string detail, std::string remedy = "") {
  return Error{ErrorClass::environment, code, "start supervisor", "hitchrail-shim", std::move(detail),
               std::move(remedy)};
}

// Everything the child needs, made before the fork: after it only system calls are made.
struct Child {
  std::array<int, wire::shim_fd_end> fds{};  // by number; -1 = not given
  int program = -1;
  int failure = -1;  // error number goes here; closed by a successful exec
  int null = -1;
  int exit_file = -1;
  wire::ExitSlot slot{};
};

// Field 22 of /proc/self/stat, without allocating.
std::uint64_t own_start_ticks() {
  char text[1024];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text, sizeof text - 1);
  if (got <= 0) {
    return 0;
  }
  ::close(fd);
  text[got] = 0;
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  std::uint64_t ticks = 0;
  for (at = at == nullptr ? "" : at + 1; *at >= '0' && *at <= '9'; ++at) {
    ticks = ticks * 10 + static_cast<std::uint64_t>(*at - '0');
  }
  return ticks;
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < 65; ++number) {
    ::sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// While this child lives before its exec it holds the launcher's lock on the attempt (a copy of that
// descriptor), so even if the launcher dies nobody recovers; from the exec on the slot names the process.
// There is no moment between.
bool name_self(Child& child) {
  if (child.exit_file < 0) {
    return true;
  }
  child.slot.shim_pid = ::getpid();
  child.slot.shim_start_ticks = own_start_ticks();
  wire::seal_exit_slot(child.slot);
  return ::pwrite(child.exit_file, &child.slot, sizeof child.slot, 0) ==
         static_cast<ssize_t>(sizeof child.slot);
}

[[noreturn]] void run_child(Child& child) {
  reset_signals();
  ::umask(077);
  bool ready = name_self(child) && ::chdir("/") == 0;
  for (int number = 0; number < 3 && ready; ++number) {
    ready = ::dup2(child.null, number) == number;
  }
  for (int number = 3; number < wire::shim_fd_end && ready; ++number) {
    const int from = child.fds[static_cast<std::size_t>(number)];
    if (from >= 0) {
      ready = ::dup2(from, number) == number;
    } else {
      ::close(number);
    }
  }
  if (ready && ::syscall(SYS_close_range, wire::shim_fd_end, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int number = wire::shim_fd_end; number < 65536; ++number) {
      (void)::fcntl(number, F_SETFD, FD_CLOEXEC);
    }
  }
  if (ready) {
    char name[] = "hitchrail-shim";
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char locale[] = "LC_ALL=C.UTF-8";
    char* const argv[] = {name, nullptr};
    char* const environment[] = {path, locale, nullptr};
    ::syscall(SYS_execveat, child.program, "", argv, environment, AT_EMPTY_PATH);
  }
  const int number = errno;
  (void)!::write(child.failure, &number, sizeof number);
  ::_exit(127);
}

Result<Fd> move_up(int fd) {
  Fd high(::fcntl(fd, F_DUPFD_CLOEXEC, high_fd));
  if (!high.valid()) {
    return errno_error("duplicate descriptor", std::to_string(fd), errno);
  }
  return high;
}

struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error("make pipe", "hitchrail-shim", errno);
  }
  const Fd first(ends[0]);
  const Fd second(ends[1]);
  HR_TRY(read, move_up(first.get()));
  HR_TRY(write, move_up(second.get()));
  return Pipe{std::move(read), std::move(write)};
}

// The shim is this process's own child until it ends: its number is not given to another before it is waited
// for.
void end_child(pid_t pid) {
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.valid()) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  }
  ::waitpid(pid, nullptr, 0);
}

Result<wire::StartReport> read_report(int fd, std::chrono::milliseconds limit) {
  wire::StartReport report{};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::size_t have = 0;
  while (have < sizeof report) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd watch{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&watch, 1, static_cast<int>(left)) == 0) {
      return start_error("shim-timeout", "the supervisor has not reported in time");
    }
    const ssize_t got = ::read(fd, reinterpret_cast<char*>(&report) + have, sizeof report - have);
    if (got == 0) {
      return start_error("start-failed", "the supervisor ended before it reported");
    }
    if (got < 0 && errno != EINTR) {
      return errno_error("read start report", "hitchrail-shim", errno);
    }
    have += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return report;
}

Error report_error(const wire::StartReport& report) {
  std::string detail =
      slot_text(report.step, sizeof report.step) + ": " + slot_text(report.detail, sizeof report.detail);
  if (report.error_number != 0) {
    detail += " (" + std::string(std::strerror(report.error_number)) + ")";
  }
  return start_error("start-failed", std::move(detail));
}

}  // namespace

void PartList::add_bytes(std::string_view bytes) {
  append_struct(bytes_, wire::OutboxPart{wire::part_bytes, 0, static_cast<std::uint32_t>(bytes.size())});
  bytes_ += bytes;
}
void PartList::add_secret(std::string_view name, std::uint32_t encoding) {
  append_struct(bytes_,
                wire::OutboxPart{wire::part_secret, encoding, static_cast<std::uint32_t>(name.size())});
  bytes_ += name;
}

void SpawnDocument::field(std::uint16_t tag, std::string_view bytes) {
  append_struct(fields_, wire::SpawnField{tag, 0, static_cast<std::uint32_t>(bytes.size())});
  fields_ += bytes;
  fields_.resize((fields_.size() + 7) / 8 * 8, '\0');
  ++count_;
}
void SpawnDocument::attempt_id(std::string_view id) {
  field(wire::tag_attempt_id, id);
}
void SpawnDocument::initial_outbox(const PartList& parts) {
  field(wire::tag_initial_outbox, parts.bytes());
}
void SpawnDocument::stop_step(std::uint32_t kind, std::int32_t signal, std::uint32_t wait_ms,
                              const PartList& parts) {
  std::string bytes;
  append_struct(bytes,
                wire::StopStep{kind, signal, wait_ms, static_cast<std::uint32_t>(parts.bytes().size())});
  field(wire::tag_stop_step, bytes + parts.bytes());
}
void SpawnDocument::stream(std::uint32_t stream) {
  std::string bytes;
  append_struct(bytes, wire::StreamSpec{stream, 0});
  field(wire::tag_stream, bytes);
}
void SpawnDocument::file_stream(std::uint32_t stream, std::uint32_t max_bytes, std::string_view pattern) {
  std::string bytes;
  append_struct(bytes, wire::FileStreamSpec{stream, max_bytes});
  field(wire::tag_file_stream, bytes + std::string(pattern));
}
void SpawnDocument::snapshot(std::string_view bytes) {
  field(wire::tag_snapshot, bytes);
}
void SpawnDocument::limits(const wire::Limits& limits) {
  std::string bytes;
  append_struct(bytes, limits);
  field(wire::tag_limits, bytes);
}
void SpawnDocument::flags(std::uint32_t flags) {
  std::string bytes;
  append_struct(bytes, flags);
  field(wire::tag_flags, bytes);
}
std::string SpawnDocument::bytes() const {
  std::string out;
  append_struct(
      out, wire::SpawnHeader{wire::spawn_magic, wire::spawn_version,
                             static_cast<std::uint32_t>(sizeof(wire::SpawnHeader) + fields_.size()), count_});
  return out + fields_;
}

std::string encode_secrets(const std::vector<Secret>& secrets) {
  std::string out;
  for (const Secret& secret : secrets) {
    append_struct(out, wire::SecretRecord{static_cast<std::uint32_t>(secret.name.size()),
                                          static_cast<std::uint32_t>(secret.value.size())});
    out += secret.name;
    out += secret.value;
  }
  return out;
}

Result<Spawned> spawn_shim(const SpawnRequest& request) {
  HR_TRY(document, sealed_memfd("spawn", request.document));
  HR_TRY(report, make_pipe());
  HR_TRY(failure, make_pipe());
  HR_TRY(null, open_at(AT_FDCWD, "/dev/null", O_RDWR));
  HR_TRY(program, move_up(request.shim_program));
  HR_TRY(null_high, move_up(null.get()));
  std::array<int, wire::shim_fd_end> given{};
  given.fill(-1);
  given[wire::shim_spawn] = document.get();
  given[wire::shim_attempt] = request.attempt;
  given[wire::shim_init] = request.init_program;
  given[wire::shim_init_plan] = request.init_plan;
  given[wire::shim_runner] = request.runner_program;
  given[wire::shim_adapter] = request.adapter;
  given[wire::shim_config] = request.runner_config;
  given[wire::shim_finish] = request.finish_program;
  given[wire::shim_secrets] = request.secrets;
  given[wire::shim_report] = report.write.get();
  given[wire::shim_home] = request.home;
  given[wire::shim_gate] = request.gate_program;
  given[wire::shim_gate_policy] = request.gate_policy;
  std::vector<Fd> high;
  Child child;
  child.fds.fill(-1);
  for (std::size_t number = 3; number < given.size(); ++number) {
    if (given[number] >= 0) {
      HR_TRY(fd, move_up(given[number]));
      child.fds[number] = fd.get();
      high.push_back(std::move(fd));
    }
  }
  child.program = program.get();
  child.failure = failure.write.get();
  child.null = null_high.get();
  HR_TRY(slot, read_exit_slot(request.attempt));
  if (slot.state != wire::exit_prepared) {
    return start_error("start-failed", "the attempt has been started before");
  }
  HR_TRY(exit_file, open_at(request.attempt, "exit", O_WRONLY | O_NONBLOCK));
  HR_TRY(exit_high, move_up(exit_file.get()));
  child.exit_file = exit_high.get();
  child.slot = slot;
  const std::string boot = boot_id();
  std::memcpy(child.slot.boot_id, boot.data(), std::min(boot.size(), sizeof child.slot.boot_id - 1));

  const pid_t pid = ::fork();
  if (pid < 0) {
    return errno_error("fork", "hitchrail-shim", errno);
  }
  if (pid == 0) {
    run_child(child);
  }
  high.clear();
  report.write.reset();
  failure.write.reset();
  int number = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure.read.get(), &number, sizeof number);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    ::waitpid(pid, nullptr, 0);
    return errno_error("exec", "hitchrail-shim", number);
  }
  Spawned spawned;
  if (auto identity = identify_process(pid); identity.has_value()) {
    spawned.shim = std::move(identity).value();
  }
  auto reported = read_report(report.read.get(), request.limit);
  if (reported.has_error()) {
    end_child(pid);
    return std::move(reported).error();
  }
  spawned.report = reported.value();
  if (spawned.report.outcome != wire::start_ok) {
    return report_error(spawned.report);
  }
  return spawned;
}

}  // namespace hitchrail::attempt
