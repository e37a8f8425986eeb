#pragma once
// What each probe of probes/ is written with: one function that tries one thing once and says whether it
// worked. The same function runs without a boundary (its control) and inside, in a child of its own that is
// killed after two seconds. The environment names what there is to attack: HR_WORKTREE, HR_OUTSIDE,
// HR_READABLE, HR_DENIED, HR_ATTEMPT, HR_HOME, HR_TMP_FILE, HR_OUTSIDER, HR_PARENT, HR_ABSTRACT,
// HR_ABSTRACT_DATAGRAM, HR_PORT, HR_UDP_PORT, HR_KEY, HR_SHM_NAME, HR_QUEUE, HR_FILE_FD, HR_DIRECTORY_FD,
// HR_SOCKET_FD.
//
// A probe must be harmless where it gets through: what it changes lies in its own scratch world, and calls
// that would change the machine are made with arguments that are refused after the permission was judged.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace hitchrail::probe {

enum class State { through, refused, broken };
struct Verdict {
  State state;
  int error_number;
  const char* note;  // instead of the errno's name
};

inline Verdict through() {
  return {State::through, 0, ""};
}
inline Verdict refused(int error_number) {
  return {State::refused, error_number, ""};
}
// Nothing was refused, and nothing was won.
inline Verdict without_effect() {
  return {State::refused, 0, "no effect"};
}
// For what had to work before the attack itself.
inline Verdict broken(const char* what) {
  return {State::broken, errno, what};
}
// The result of a system call: negative is refused.
inline Verdict result(long value) {
  return value >= 0 ? through() : refused(errno);
}
// A call with arguments that cannot work: it got through when the answer is about the arguments.
Verdict reached(long value);
// The verdict of `attempt` in a child that is waited for.
Verdict in_child(Verdict (*attempt)());
// `sh -c SCRIPT`, through when it exits with 0.
Verdict shell(const char* script);
// Runs `program` in a child: through when it could be executed and exited with 0.
Verdict execute(const char* program);

// A variable of the world, with `rest` appended. One of eight rotating buffers.
const char* place(const char* variable, const char* rest = "");
int number(const char* variable);
// connect() to an address in the file system, or to an abstract name.
int connect_unix(const char* path, bool abstract, int type);
int connect_loopback(int family, int type, int port);
// The user's side of a new pseudo-terminal that controls this process's session; negative is refused.
int own_terminal();

}  // namespace hitchrail::probe

#define HR_NEED(condition, what)               \
  do {                                         \
    if (!(condition)) {                        \
      return ::hitchrail::probe::broken(what); \
    }                                          \
  } while (false)
#define HR_PROBE(name)         \
  namespace hitchrail::probe { \
  Verdict probe_##name();      \
  }                            \
  hitchrail::probe::Verdict hitchrail::probe::probe_##name()
