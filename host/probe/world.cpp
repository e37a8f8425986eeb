#include "probe/world.hpp"

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace hitchrail::probe {
namespace {

constexpr const char* names[] = {"HR_WORKTREE",          "HR_OUTSIDE",  "HR_READABLE", "HR_DENIED",
                                 "HR_ATTEMPT",           "HR_TMP_FILE", "HR_OUTSIDER", "HR_ABSTRACT",
                                 "HR_ABSTRACT_DATAGRAM", "HR_PORT",     "HR_UDP_PORT", "HR_KEY",
                                 "HR_SHM_NAME",          "HR_QUEUE"};

[[noreturn]] void end(const char* what) {
  std::fprintf(stderr, "hitchrail-probe: %s: %s\n", what, strerror(errno));
  _exit(3);
}

void write_file(const char* path, const char* text, mode_t mode) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  const auto size = static_cast<ssize_t>(std::strlen(text));
  if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, text, static_cast<std::size_t>(size)) != size ||
      close(fd) < 0) {
    end(path);
  }
}

constexpr const char* directories[] = {"",
                                       "tree",
                                       "tree/src",
                                       "tree/src/dir",
                                       "tree/.git",
                                       "tree/.git/objects",
                                       "tree/.git/refs",
                                       "tree/denied",
                                       "outside",
                                       "outside/dir",
                                       "outside/empty",
                                       "readable",
                                       "attempt",
                                       "attempt/home",
                                       "attempt/temp",
                                       "attempt/git",
                                       "attempt/git/objects",
                                       "attempt/git/objects/info",
                                       "attempt/git/refs",
                                       "attempt/git/refs/heads"};
struct File {
  const char* name;
  const char* text;
  mode_t mode;
};
constexpr File contents[] = {
    {"tree/src/main.c", "int main;\n", 0644},
    {"tree/top.txt", "text\n", 0644},
    {"tree/.git/HEAD", "ref: refs/heads/main\n", 0644},
    {"tree/denied/file", "secret\n", 0644},
    {"outside/secret", "secret\n", 0644},
    {"outside/program", "#!/bin/sh\nexit 0\n", 0755},
    {"readable/file", "text\n", 0644},
    {"attempt/token", "token\n", 0600},
    {"attempt/git/HEAD", "ref: refs/heads/main\n", 0644},
    {"attempt/git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n", 0644},
};
constexpr const char* others[] = {"outside/socket", "outside/datagram", "attempt/s", "outside/pointer"};

bool known(const char* name) {
  for (const char* each : directories) {
    if (std::strcmp(each, name) == 0) {
      return true;
    }
  }
  for (const File& file : contents) {
    if (std::strcmp(file.name, name) == 0) {
      return true;
    }
  }
  for (const char* each : others) {
    if (std::strcmp(each, name) == 0) {
      return true;
    }
  }
  return false;
}

std::size_t walk_base_length = 0;  // nftw has no argument of its own

int remove_unknown(const char* path, const struct stat*, int, FTW*) {
  if (std::strlen(path) > walk_base_length && !known(path + walk_base_length)) {
    (void)remove(path);
  }
  return 0;
}

int remove_entry(const char* path, const struct stat*, int, FTW*) {
  (void)remove(path);
  return 0;
}

}  // namespace

World::World(const char* base) {
  std::snprintf(base_, sizeof base_, "%s/w", base);
  unsigned char bytes[8];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    end("random");
  }
  char token[20];
  for (unsigned i = 0; i < sizeof bytes; ++i) {
    std::snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  }
  std::snprintf(abstract_, sizeof abstract_, "hitchrail-probe-%s", token);
  std::snprintf(datagram_, sizeof datagram_, "hitchrail-probe-%s-d", token);
  std::snprintf(memory_, sizeof memory_, "/dev/shm/hitchrail-probe-%s", token);
  std::snprintf(queue_, sizeof queue_, "hitchrail-probe-%s", token);
  std::snprintf(file_, sizeof file_, "/tmp/hitchrail-probe-%s.txt", token);
  key_ = 0x48520000 | bytes[0] << 8 | bytes[1];
  files();
  sockets();
  ipc();
  janitor();
  outsider();
}

World::~World() {
  kill(outsider_, SIGKILL);
  waitpid(outsider_, nullptr, 0);
  for (int i = 0; i < fd_count_; ++i) {
    close(fds_[i]);
  }
  remove_all();
  close(janitor_pipe_);
  waitpid(janitor_, nullptr, 0);
}

void World::remove_all() const {
  shmctl(segment_, IPC_RMID, nullptr);
  semctl(semaphore_, 0, IPC_RMID);
  msgctl(messages_, IPC_RMID, nullptr);
  unlink(memory_);
  syscall(SYS_mq_unlink, queue_);
  unlink(file_);
  nftw(base_, remove_entry, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}

// Shared memory and queues outlive a killed process: another one, in a session of its own, sees the pipe
// close and removes what is left.
void World::janitor() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0) {
    end("pipe");
  }
  janitor_ = fork();
  if (janitor_ == 0) {
    setsid();
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      signal(number, SIG_IGN);
    }
    dup2(fds[0], 0);
    close_range(1, ~0u, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR) {
    }
    remove_all();
    _exit(0);
  }
  close(fds[0]);
  janitor_pipe_ = fds[1];
}

const char* World::path(const char* name) const {
  static char buffers[4][4096];
  static unsigned next = 0;
  char* buffer = buffers[next++ % 4];
  std::snprintf(buffer, sizeof buffers[0], "%s/%s", base_, name);
  return buffer;
}

void World::files() {
  for (const char* name : directories) {
    const char* where = path(name);
    struct stat info {};
    if (lstat(where, &info) == 0 && !S_ISDIR(info.st_mode)) {
      unlink(where);
    }
    if ((mkdir(where, 0755) < 0 && errno != EEXIST) || chmod(where, 0755) < 0) {
      end(where);
    }
  }
  for (const File& file : contents) {
    write_file(path(file.name), file.text, file.mode);
  }
  write_file(file_, "text\n", 0600);
  if (symlink("secret", path("outside/pointer")) < 0 && errno != EEXIST) {
    end("symlink");
  }
}

void World::restore() {
  char moved[2100];  // rename_worktree's
  std::snprintf(moved, sizeof moved, "%s/tree-moved", base_);
  (void)rename(moved, path("tree"));
  (void)rename(path("tree/src/old-git"), path("tree/.git"));
  (void)rename(path("tree/src/denied"), path("tree/denied"));
  walk_base_length = std::strlen(base_) + 1;
  nftw(base_, remove_unknown, 16, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
  files();
}

int World::listen_unix(const char* where, bool abstract, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::strlen(where);
  if (size + 2 > sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    end(where);
  }
  std::memcpy(address.sun_path + (abstract ? 1 : 0), where, size);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), length) < 0 ||
      (type == SOCK_STREAM && listen(fd, 16) < 0)) {
    end(where);
  }
  return fds_[fd_count_++] = fd;
}

int World::listen_port(int type) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return 1;  // no network here: the controls will say so
  }
  fds_[fd_count_++] = fd;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) < 0 ||
      (type == SOCK_STREAM && listen(fd, 16) < 0) ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) < 0) {
    return 1;
  }
  return ntohs(address.sin_port);
}

void World::sockets() {
  listen_unix(path("outside/socket"), false, SOCK_STREAM);
  listen_unix(path("outside/datagram"), false, SOCK_DGRAM);
  listen_unix(path("attempt/s"), false, SOCK_STREAM);
  listen_unix(abstract_, true, SOCK_STREAM);
  listen_unix(datagram_, true, SOCK_DGRAM);
  port_ = listen_port(SOCK_STREAM);
  udp_port_ = listen_port(SOCK_DGRAM);
}

void World::ipc() {
  segment_ = shmget(key_, 4096, IPC_CREAT | IPC_EXCL | 0600);
  semaphore_ = semget(key_, 1, IPC_CREAT | IPC_EXCL | 0600);
  messages_ = msgget(key_, IPC_CREAT | IPC_EXCL | 0600);
  const int memory = open(memory_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (memory >= 0) {
    close(memory);
  }
  const long queue = syscall(SYS_mq_open, queue_, O_RDWR | O_CREAT | O_CLOEXEC, 0600, nullptr);
  if (queue >= 0) {
    close(static_cast<int>(queue));
  }
}

void World::outsider() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0) {
    end("pipe");
  }
  const pid_t parent = getpid();
  outsider_ = fork();
  if (outsider_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(path("outside")) < 0) {
      _exit(1);
    }
    dup2(fds[1], 1);
    for (;;) {
      pause();
    }
  }
  fds_[fd_count_++] = fds[0];
  close(fds[1]);
}

void World::set(const char* name, const char* value) {
  setenv(name, value, 1);
}

void World::set_number(const char* name, long value) {
  char text[24];
  std::snprintf(text, sizeof text, "%ld", value);
  setenv(name, text, 1);
}

void World::set_environment(bool inherit) {
  set("HR_WORKTREE", path("tree"));
  set("HR_OUTSIDE", path("outside"));
  set("HR_READABLE", path("readable"));
  set("HR_DENIED", path("tree/denied"));
  set("HR_ATTEMPT", path("attempt"));
  set("HR_TMP_FILE", file_);
  set_number("HR_OUTSIDER", outsider_);
  set("HR_ABSTRACT", abstract_);
  set("HR_ABSTRACT_DATAGRAM", datagram_);
  set_number("HR_PORT", port_);
  set_number("HR_UDP_PORT", udp_port_);
  set_number("HR_KEY", key_);
  set("HR_SHM_NAME", memory_);
  set("HR_QUEUE", queue_);
  if (inherit) {
    set("HOME", path("attempt/home"));
    set("TMPDIR", path("attempt/temp"));
    set("PATH", "/usr/local/bin:/usr/bin:/bin");
    set("GIT_DIR", path("attempt/git"));
    set("GIT_WORK_TREE", path("tree"));
    fds_[fd_count_] = open(path("outside/secret"), O_RDWR);
    set_number("HR_FILE_FD", fds_[fd_count_++]);
    fds_[fd_count_] = open(path("outside"), O_RDONLY | O_DIRECTORY);
    set_number("HR_DIRECTORY_FD", fds_[fd_count_++]);
    fds_[fd_count_] = socket(AF_UNIX, SOCK_STREAM, 0);
    set_number("HR_SOCKET_FD", fds_[fd_count_++]);
  }
}

void World::print_environment(int fd) const {
  for (const char* name : names) {
    dprintf(fd, "%s=%s\n", name, std::getenv(name));
  }
  dprintf(fd, "ready\n");
}

bool World::daemon_lives() const {
  const int fd = open(path("tree/src/daemon"), O_RDWR | O_CLOEXEC);
  const bool lives = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
  if (fd >= 0) {
    close(fd);
  }
  return lives;
}

}  // namespace hitchrail::probe
