#include "attempt/identity.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace hitchrail::attempt {
namespace {

struct Stat {
  char state = 0;
  std::uint64_t start_ticks = 0;
};

// Field 3 and 22 of /proc/PID/stat; the name before them may hold any bytes, so they are counted from the
// last ')'.
bool read_stat(int pid, Stat& out) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file.valid() ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (got <= 0) {
    return false;
  }
  text[got] = 0;
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') {
    return false;
  }
  at += 2;
  out.state = *at;
  for (int field = 3; field < 22; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) {
      return false;
    }
    ++at;
  }
  out.start_ticks = std::strtoull(at, nullptr, 10);
  return true;
}

bool is_this(const Stat& stat, const ProcessIdentity& identity) {
  return stat.start_ticks == identity.start_ticks && stat.state != 'Z' && stat.state != 'X';
}

}  // namespace

Liveness liveness(const ProcessIdentity& identity) {
  Stat stat;
  const bool alive = identity.pid > 0 && !identity.boot_id.empty() && identity.boot_id == boot_id() &&
                     read_stat(identity.pid, stat) && is_this(stat, identity);
  return alive ? Liveness::alive : Liveness::dead;
}

Result<Process> Process::open(const ProcessIdentity& identity) {
  const Error gone{ErrorClass::failed,
                   "process-gone",
                   "open process",
                   std::to_string(identity.pid),
                   "it does not run any more",
                   ""};
  if (identity.pid <= 0 || identity.boot_id != boot_id()) {
    return gone;
  }
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, identity.pid, 0)));
  if (!pidfd.valid()) {
    return errno == ESRCH ? gone : errno_error("open process", std::to_string(identity.pid), errno);
  }
  Stat stat;
  if (!read_stat(identity.pid, stat) || !is_this(stat, identity)) {
    return gone;
  }
  return Process(std::move(pidfd), identity.pid);
}

Status Process::signal(int number) const {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) != 0 && errno != ESRCH) {
    return errno_error("signal process", std::to_string(pid_), errno);
  }
  return {};
}

Result<bool> Process::wait_gone(std::chrono::milliseconds limit) const {
  pollfd watch{pidfd_.get(), POLLIN, 0};
  const int ready = ::poll(&watch, 1, static_cast<int>(limit.count()));
  if (ready < 0 && errno != EINTR) {
    return errno_error("wait for process", std::to_string(pid_), errno);
  }
  return ready > 0;  // a pidfd is readable as soon as the process is a zombie
}

}  // namespace hitchrail::attempt
