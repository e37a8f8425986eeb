#pragma once
// The scratch world of a probe: a worktree and everything outside it that an attack aims at, in a directory
// that is new and nobody else's. Removed when it ends, with what the attack left.

#include <sys/types.h>

namespace hitchrail::probe {

class World {
 public:
  // `base` is an existing directory of ours; the world is its `w`. Ends the process when it cannot be made.
  explicit World(const char* base);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // HR_* of this process's environment. With `inherit` the descriptors of a careless launcher are opened too.
  void set_environment(bool inherit);
  // NAME=VALUE lines of what set_environment() set.
  void print_environment(int fd) const;
  [[nodiscard]] const char* path(const char* name) const;
  // Puts back what a probe changed, removes what it made.
  void restore();
  [[nodiscard]] pid_t outsider_pid() const { return outsider_; }
  // Whether a process of the run still holds the lock that `daemon` took.
  [[nodiscard]] bool daemon_lives() const;

 private:
  void files();
  void sockets();
  void ipc();
  void outsider();
  void janitor();
  void remove_all() const;
  int listen_unix(const char* path, bool abstract, int type);
  int listen_port(int type);
  void set(const char* name, const char* value);
  void set_number(const char* name, long value);

  char base_[2048];
  char abstract_[64], datagram_[64], memory_[64], queue_[64], file_[64];
  int fds_[16];
  int fd_count_ = 0;
  int port_ = 0, udp_port_ = 0;
  int key_ = 0;
  int segment_ = -1, semaphore_ = -1, messages_ = -1;
  pid_t outsider_ = -1;
  pid_t janitor_ = -1;
  int janitor_pipe_ = -1;
};

}  // namespace hitchrail::probe
