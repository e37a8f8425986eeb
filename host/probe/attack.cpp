#include "probe/attack.hpp"

#include <netinet/in.h>
#include <sys/mman.h>

namespace hitchrail::probe {
namespace {

// What a child says to its parent; memory of both.
template <class T>
T* shared_memory() {
  void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

Verdict exit_verdict(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return through();
  }
  static char note[32];
  if (WIFSIGNALED(status)) {
    std::snprintf(note, sizeof note, "signal %d", WTERMSIG(status));
  } else {
    std::snprintf(note, sizeof note, "exit %d", WEXITSTATUS(status));
  }
  return {State::refused, 0, note};
}

Verdict run(const char* program, const char* const* arguments) {
  int* exec_error = shared_memory<int>();
  HR_NEED(exec_error != nullptr, "memory");
  const pid_t child = fork();
  HR_NEED(child >= 0, "fork");
  if (child == 0) {
    execv(program, const_cast<char* const*>(arguments));
    *exec_error = errno;
    _exit(127);
  }
  int status = 0;
  HR_NEED(waitpid(child, &status, 0) == child, "wait");
  return *exec_error != 0 ? refused(*exec_error) : exit_verdict(status);
}

}  // namespace

Verdict reached(long value) {
  const bool denied = value < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS);
  return denied ? refused(errno) : through();
}

Verdict in_child(Verdict (*attempt)()) {
  auto* verdict = shared_memory<Verdict>();
  HR_NEED(verdict != nullptr, "memory");
  *verdict = {State::broken, 0, "the child said nothing"};
  const pid_t child = fork();
  HR_NEED(child >= 0, "fork");
  if (child == 0) {
    *verdict = attempt();
    _exit(0);
  }
  int status = 0;
  HR_NEED(waitpid(child, &status, 0) == child, "wait");
  return *verdict;
}

Verdict shell(const char* script) {
  const char* const arguments[] = {"sh", "-c", script, nullptr};
  return run("/bin/sh", arguments);
}

Verdict execute(const char* program) {
  const char* const arguments[] = {"program", nullptr};
  return run(program, arguments);
}

const char* place(const char* variable, const char* rest) {
  static char buffers[8][4200];
  static unsigned next = 0;
  const char* value = std::getenv(variable);
  char* buffer = buffers[next++ % 8];
  std::snprintf(buffer, sizeof buffers[0], "%s%s", value != nullptr ? value : "/nonexistent", rest);
  return buffer;
}

int number(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::atoi(value) : -1;
}

int connect_unix(const char* path, bool abstract, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::strlen(path);
  const std::size_t offset = abstract ? 1 : 0;
  if (size + offset + 1 > sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path + offset, path, size);
  const int fd = socket(AF_UNIX, type, 0);
  if (fd < 0) {
    return -1;
  }
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + size);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), abstract ? length : sizeof address) < 0 ? -1 : fd;
}

int connect_loopback(int family, int type, int port) {
  const int fd = socket(family, type, 0);
  if (fd < 0) {
    return -1;
  }
  if (family == AF_INET) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 ? -1 : fd;
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<in_port_t>(port));
  static constexpr unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  std::memcpy(&address.sin6_addr, mapped, sizeof mapped);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 ? -1 : fd;
}

int own_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
    return -1;
  }
  char name[64];
  if (ptsname_r(master, name, sizeof name) != 0) {
    return -1;
  }
  setsid();
  const int own = open(name, O_RDWR);
  return own < 0 || ioctl(own, TIOCSCTTY, 0) < 0 ? -1 : own;
}

}  // namespace hitchrail::probe
