#pragma once
// Where the broken adapters lie, and a child process whose end a test can ask for.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace hitchrail::test {

inline std::string zoo(const std::string& name) {
  return HITCHRAIL_BINARY_DIR "/test-plugins/zoo/" + name + ".so";
}
inline std::string runner_path() {
  return HITCHRAIL_BINARY_DIR "/bin/hitchrail-runner";
}

// What `body` returns in a child of its own becomes the exit code; 128 + signal when one ended it.
inline int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM}) {
      ::signal(signal, SIG_DFL);  // not the test program's reporters
    }
    int code = 125;
    try {
      code = body();
    } catch (...) {
      code = 124;
    }
    ::_exit(code);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) {
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The body as an ordinary uid when the test runs as root.
inline int in_ordinary_child(const std::function<int()>& body) {
  return in_child([&] {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) {
      return 123;
    }
    // A change of uid makes a process undumpable; its child begins as any ordinary process does.
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return ::geteuid() == 0 ? 122 : in_child(body);
  });
}

}  // namespace hitchrail::test
