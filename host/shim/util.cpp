#include "shim/util.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace hitchrail::shim {

namespace {
std::int64_t clock_ms(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}
}  // namespace

std::int64_t monotonic_ms() {
  return clock_ms(CLOCK_MONOTONIC);
}
std::int64_t unix_ms() {
  return clock_ms(CLOCK_REALTIME);
}

bool Bytes::append(const void* data, std::size_t size) {
  if (capacity_ - end_ < size) {
    const std::size_t used = end_ - begin_;
    std::size_t wanted = capacity_ < 512 ? 512 : capacity_;
    while (wanted - used < size) {
      if (wanted > SIZE_MAX / 2) {
        return false;
      }
      wanted *= 2;
    }
    auto* fresh = static_cast<unsigned char*>(malloc(wanted));
    if (fresh == nullptr) {
      return false;
    }
    if (used > 0) {
      memcpy(fresh, data_ + begin_, used);
    }
    free(data_);
    data_ = fresh;
    capacity_ = wanted;
    begin_ = 0;
    end_ = used;
  }
  if (size > 0) {
    memcpy(data_ + end_, data, size);
    end_ += size;
  }
  return true;
}

void Bytes::consume(std::size_t size) {
  begin_ += size;
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (capacity_ > 16384) {
      clear();
    }
  }
}

void Bytes::clear() {
  free(data_);
  data_ = nullptr;
  begin_ = end_ = capacity_ = 0;
}

void close_fd(int& fd) {
  if (fd >= 0) {
    close(fd);
    fd = -1;
  }
}

bool pwrite_all(int fd, const void* data, std::size_t size, std::uint64_t offset) {
  const auto* p = static_cast<const unsigned char*>(data);
  while (size > 0) {
    const ssize_t n = pwrite(fd, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    p += n;
    size -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd, p, size);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    p += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

ssize_t read_to_end(int fd, void* out, std::size_t cap) {
  auto* p = static_cast<unsigned char*>(out);
  std::size_t used = 0;
  for (;;) {
    unsigned char extra = 0;
    const bool full = used == cap;
    const ssize_t n = full ? read(fd, &extra, 1) : read(fd, p + used, cap - used);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return -1;
    }
    if (n == 0) {
      return static_cast<ssize_t>(used);
    }
    if (full) {
      errno = E2BIG;
      return -1;
    }
    used += static_cast<std::size_t>(n);
  }
}

void set_text_from(char* out, std::size_t size, const char* text) {
  std::size_t i = 0;
  for (; i + 1 < size && text[i] != 0; ++i) {
    out[i] = text[i];
  }
  for (; i < size; ++i) {
    out[i] = 0;
  }
}

std::size_t format_number(char* out, std::uint64_t value) {
  char reversed[20];
  std::size_t n = 0;
  do {
    reversed[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = reversed[n - 1 - i];
  }
  out[n] = 0;
  return n;
}

int open_pidfd(int pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

bool signal_pidfd(int pidfd, int signal) {
  return pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

namespace {
void proc_path(char* out, const char* prefix, std::uint64_t number, const char* suffix) {
  strcpy(out, prefix);
  format_number(out + strlen(out), number);
  strcat(out, suffix);
}
ssize_t read_proc(const char* path, char* out, std::size_t cap) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  std::size_t used = 0;
  while (used + 1 < cap) {
    const ssize_t n = read(fd, out + used, cap - 1 - used);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    used += static_cast<std::size_t>(n);
  }
  close(fd);
  out[used] = 0;
  return static_cast<ssize_t>(used);
}
}  // namespace

int pidfd_pid(int pidfd) {
  char path[64];
  char text[512];
  proc_path(path, "/proc/self/fdinfo/", static_cast<std::uint64_t>(pidfd), "");
  if (read_proc(path, text, sizeof text) <= 0) {
    return 0;
  }
  const char* at = strstr(text, "\nPid:");
  const int pid = at != nullptr ? atoi(at + 5) : 0;
  return pid > 0 ? pid : 0;
}

bool read_stat(int pid, ProcessStat& out) {
  char path[48];
  char text[1024];
  proc_path(path, "/proc/", static_cast<std::uint64_t>(pid), "/stat");
  if (read_proc(path, text, sizeof text) <= 0) {
    return false;
  }
  const char* at = strrchr(text, ')');  // the name may hold anything
  if (at == nullptr || at[1] != ' ') {
    return false;
  }
  at += 2;
  out.state = *at;
  out.parent = atoi(at + 1);
  for (int field = 3; field < 22 && at != nullptr; ++field) {
    at = strchr(at + 1, ' ');
  }
  if (at == nullptr) {
    return false;
  }
  out.start_ticks = strtoull(at + 1, nullptr, 10);
  return true;
}

bool pidfd_exit_status(int pidfd, int& status) {
  // struct pidfd_info of Linux 6.15, spelled out because this must build with older headers.
  struct Info {
    std::uint64_t mask;
    std::uint64_t cgroup;
    std::uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    std::int32_t exit_code;
  } info{};
  static_assert(sizeof(Info) == 64);
  constexpr std::uint64_t want_exit = 1u << 3;
  info.mask = want_exit;
  if (pidfd < 0 || ioctl(pidfd, _IOWR(0xFF, 11, Info), &info) != 0 || (info.mask & want_exit) == 0) {
    return false;
  }
  status = info.exit_code;
  return true;
}

namespace {
[[noreturn]] void become(const Child& child, int parent) {
  if (child.dies_with_parent && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
    _exit(126);
  }
  for (int number = 1; number < 65; ++number) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action,
              nullptr);  // fails for SIGKILL, SIGSTOP and libc's own two: nothing to reset there
  }
  sigset_t none;
  sigemptyset(&none);
  if (sigprocmask(SIG_SETMASK, &none, nullptr) != 0) {
    _exit(126);
  }
  // All sources first go above every target, so that no target overwrites a source still to be copied.
  constexpr int above = 64;
  int high[32];
  if (child.map_size > 31) {
    _exit(126);
  }
  const int executable = fcntl(child.executable, F_DUPFD_CLOEXEC, above);
  for (std::size_t i = 0; i < child.map_size; ++i) {
    high[i] = fcntl(child.map[i].from, F_DUPFD_CLOEXEC, above);
    if (high[i] < 0) {
      _exit(126);
    }
  }
  if (executable < 0 || syscall(SYS_close_range, 3, above - 1, 0) != 0) {
    _exit(126);
  }
  for (std::size_t i = 0; i < child.map_size; ++i) {
    if (dup2(high[i], child.map[i].to) < 0) {
      _exit(126);
    }
  }
  if (syscall(SYS_close_range, above, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    _exit(126);
  }
  syscall(SYS_execveat, executable, "", child.argv, child.environment, AT_EMPTY_PATH);
  _exit(127);
}
}  // namespace

int start_child(const Child& child) {
  const int parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(child, parent);
  }
  return pid;
}

}  // namespace hitchrail::shim
