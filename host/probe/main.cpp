// hitchrail-probe: every probe in one small static program.
//
//   run ID…            each in a child of its own, in this process's boundary; HR_* names the world
//   control BASE ID…   each in a restored world below BASE, without a boundary
//   world BASE         makes a world, prints its variables, keeps it until standard input ends
//   list               the ids
//
// run and control print a line a probe: ID, then "through", "refused WHY", "killed SIGNAL", "broken WHAT" or
// "timeout". A child that does not answer within two seconds is killed with everything it started.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "probe/attack.hpp"
#include "probe/world.hpp"

namespace hitchrail::probe {

#define X(name) Verdict probe_##name();
#include "probe_list.inc"
#undef X

namespace {

struct Entry {
  const char* id;
  Verdict (*call)();
};
constexpr Entry entries[] = {
#define X(name) {#name, probe_##name},
#include "probe_list.inc"
#undef X
};

constexpr int time_limit_ms = 2000;

// What the probe's process says: written there, read by the process that prints it.
struct Answer {
  State state;
  int error_number;
  int wait_status;  // of the probe's process, when it said nothing
  char note[64];
};

int output = 1;

const Entry* find_entry(const char* id) {
  for (const Entry& entry : entries) {
    if (std::strcmp(entry.id, id) == 0) {
      return &entry;
    }
  }
  return nullptr;
}

void print(const char* id, const Answer& answer) {
  const char* name = answer.note;
  if (answer.wait_status != 0) {
    const bool killed = WIFSIGNALED(answer.wait_status);
    dprintf(output, "%s %s %s\n", id, killed ? "killed" : "broken",
            killed ? sigabbrev_np(WTERMSIG(answer.wait_status)) : "no answer");
  } else if (answer.state == State::through) {
    dprintf(output, "%s through\n", id);
  } else if (answer.state == State::refused) {
    name = answer.note[0] != '\0' ? answer.note : strerrorname_np(answer.error_number);
    dprintf(output, "%s refused %s\n", id, name != nullptr ? name : "?");
  } else {
    const char* why = answer.error_number != 0 ? strerrorname_np(answer.error_number) : nullptr;
    dprintf(output, "%s broken %s%s%s\n", id, name, why != nullptr ? ": " : "", why != nullptr ? why : "");
  }
}

// Everything below this process but `keep`: orphans come to it (subreaper).
void kill_descendants(pid_t keep) {
  for (int pass = 0; pass < 500; ++pass) {
    int left = 0;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(gettid()));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char list[4096];
    const ssize_t got = fd >= 0 ? read(fd, list, sizeof list - 1) : -1;
    if (fd >= 0) {
      close(fd);
    }
    list[got > 0 ? got : 0] = '\0';
    for (char* at = list; *at != '\0';) {
      const long pid = std::strtol(at, &at, 10);
      if (pid <= 0) {
        break;
      }
      left += pid != keep ? 1 : 0;
      if (pid != keep) {
        kill(static_cast<pid_t>(pid), SIGKILL);
      }
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (left == 0) {
      return;
    }
    usleep(100);
  }
}

// Run by root the control of a mount or a host name must not reach the machine.
void stand_apart() {
  if (unshare(CLONE_NEWNS | CLONE_NEWUTS) == 0) {
    (void)mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  }
}

[[noreturn]] void attempt(const Entry& entry, Answer* answer, int said) {
  const Verdict verdict = entry.call();
  answer->error_number = verdict.error_number;
  std::snprintf(answer->note, sizeof answer->note, "%s", verdict.note);
  answer->state = verdict.state;
  answer->wait_status = 0;
  (void)!write(said, "x", 1);
  _exit(0);
}

// A process between this one and the probe, which a probe may kill as its "parent"; its own is told by `own`.
[[noreturn]] void stage(const Entry& entry, Answer* answer, int said, bool control) {
  if (control) {
    stand_apart();
    char pid[16];
    std::snprintf(pid, sizeof pid, "%d", static_cast<int>(getpid()));
    setenv("HR_PARENT", pid, 1);
  }
  const pid_t child = fork();
  if (child == 0) {
    attempt(entry, answer, said);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    _exit(1);
  }
  if (answer->wait_status != 0 && status != 0) {
    answer->wait_status = status;
  }
  (void)!write(said, "x", 1);
  _exit(0);
}

void run_one(const Entry& entry, bool control, const World* world) {
  void* memory = mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int said[2];
  if (memory == MAP_FAILED || pipe2(said, O_CLOEXEC) < 0) {
    dprintf(output, "%s broken memory\n", entry.id);
    return;
  }
  auto* answer = new (memory) Answer{State::broken, 0, 0xff00, ""};
  const pid_t between = fork();
  if (between == 0) {
    stage(entry, answer, said[1], control);
  }
  close(said[1]);
  pollfd wait{said[0], POLLIN, 0};
  if (between < 0) {
    dprintf(output, "%s broken fork\n", entry.id);
  } else if (poll(&wait, 1, time_limit_ms) == 0) {
    dprintf(output, "%s timeout\n", entry.id);
  } else if (world != nullptr && std::strcmp(entry.id, "daemon") == 0 && answer->state == State::through) {
    dprintf(output, "%s %s\n", entry.id, world->daemon_lives() ? "through" : "refused no effect");
  } else {
    print(entry.id, *answer);
  }
  close(said[0]);
  munmap(memory, sizeof(Answer));
  if (control || std::strcmp(entry.id, "daemon") != 0) {  // that one is looked at when init is gone
    kill_descendants(world != nullptr ? world->outsider_pid() : 0);
  }
}

int usage() {
  dprintf(2, "usage: hitchrail-probe run ID... | control BASE ID... | world BASE | list\n");
  return 2;
}

int run_ids(char** ids, World* world) {
  for (char** id = ids; *id != nullptr; ++id) {
    const Entry* entry = find_entry(*id);
    if (entry == nullptr) {
      dprintf(output, "%s broken unknown\n", *id);
      continue;
    }
    run_one(*entry, world != nullptr, world);
    if (world != nullptr) {
      world->restore();
    }
  }
  return 0;
}

int run_controls(const char* base, char** ids) {
  World world(base);
  world.set_environment(true);
  return run_ids(ids, &world);
}

int keep_world(const char* base) {
  World world(base);
  world.set_environment(false);
  world.print_environment(output);
  char byte = 0;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}

int choose(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) {
    for (const Entry& entry : entries) {
      dprintf(output, "%s\n", entry.id);
    }
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "world") == 0) {
    return keep_world(argv[2]);
  }
  const bool control = argc >= 3 && std::strcmp(argv[1], "control") == 0;
  if (!control && (argc < 2 || std::strcmp(argv[1], "run") != 0)) {
    return usage();
  }
  output = fcntl(1, F_DUPFD_CLOEXEC, 3);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) {
    dup2(null, fd);
  }
  if (control) {
    return run_controls(argv[2], argv + 3);
  }
  char parent[16];
  std::snprintf(parent, sizeof parent, "%d", static_cast<int>(getppid()));
  setenv("HR_PARENT", parent, 1);
  return run_ids(argv + 2, nullptr);
}

}  // namespace
}  // namespace hitchrail::probe

int main(int argc, char** argv) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGPIPE, SIG_IGN);
  umask(022);
  return hitchrail::probe::choose(argc, argv);
}
