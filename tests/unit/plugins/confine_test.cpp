#include "runner/confine.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <thread>

#include "plugins/plugins.hpp"
#include "runner/load.hpp"
#include "support/scratch.hpp"
#include "zoo.hpp"

namespace {

using namespace hitchrail;

constexpr int good = 0;

confine::Options plain() {
  confine::Options options;
  options.keep_fds = {0, 1, 2};
  return options;
}

// 0 when `attempt` worked (result >= 0), its errno otherwise.
int outcome(const std::function<long()>& attempt) {
  errno = 0;
  return attempt() >= 0 ? 0 : errno;
}

struct Attack {
  const char* name;
  std::function<long()> attempt;
  int error;  // expected when confined
};

long spawn_and_reap(const std::function<long()>& start) {
  const long pid = start();
  if (pid == 0) {
    ::_exit(0);
  }
  if (pid > 0) {
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  }
  return pid;
}

std::vector<Attack> attacks() {
  return {
      {"open a file to read", [] { return ::open("/etc/passwd", O_RDONLY | O_CLOEXEC); }, EACCES},
      {"list a directory", [] { return ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }, EACCES},
      {"open its own memory", [] { return ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC); }, EACCES},
      {"make a socket", [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }, EPERM},
      {"make a TCP socket", [] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }, EPERM},
      {"fork", [] { return spawn_and_reap([]() -> long { return ::fork(); }); }, EPERM},
      {"vfork by clone",
       [] { return spawn_and_reap([]() -> long { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }); },
       EPERM},
      {"signal its parent", [] { return ::kill(::getppid(), 0); }, EPERM},
      {"signal a process by pidfd", [] { return ::syscall(SYS_pidfd_open, ::getppid(), 0); }, EPERM},
      {"change its limits",
       [] {
         rlimit limit{};
         ::getrlimit(RLIMIT_NOFILE, &limit);
         return ::setrlimit(RLIMIT_NOFILE, &limit);
       },
       EPERM},
      {"make itself dumpable", [] { return ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }, EPERM},
      {"take signals of a descriptor for another", [] { return ::fcntl(0, F_SETOWN, ::getpid()); }, EPERM},
      {"change a mode", [] { return ::chmod("/nowhere-at-all", 0) == -1 && errno == ENOENT ? 0 : -1; },
       EPERM},
      {"change its folder", [] { return ::chdir("/"); }, EPERM},
  };
}

TEST_CASE("what a confined process may not do works before and fails after") {
  for (const Attack& attack : attacks()) {
    const auto confined_too = [&] {
      if (outcome(attack.attempt) != 0) {
        return 1;  // the positive control
      }
      if (confine::confine(plain()).has_error()) {
        return 2;
      }
      return outcome(attack.attempt) == attack.error ? good : 3;
    };
    INFO(attack.name);
    CHECK(test::in_child(confined_too) == good);
    CHECK(test::in_ordinary_child(confined_too) == good);
  }
}

TEST_CASE("calls that need no control are refused whatever the kernel thinks of their arguments") {
  const long calls[] = {SYS_execve,
                        SYS_execveat,
                        SYS_ptrace,
                        SYS_open_by_handle_at,
                        SYS_io_uring_setup,
                        SYS_process_vm_readv,
                        SYS_process_vm_writev,
                        SYS_mount,
                        SYS_umount2,
                        SYS_move_mount,
                        SYS_open_tree,
                        SYS_fsopen,
                        SYS_pivot_root,
                        SYS_unshare,
                        SYS_setns,
                        SYS_keyctl,
                        SYS_add_key,
                        SYS_request_key,
                        SYS_bpf,
                        SYS_perf_event_open,
                        SYS_userfaultfd,
                        SYS_connect,
                        SYS_bind,
                        SYS_listen,
                        SYS_accept4,
                        SYS_socketpair,
                        SYS_clone3,
                        SYS_vfork,
                        SYS_pidfd_getfd,
                        SYS_pidfd_send_signal,
                        SYS_rt_sigqueueinfo,
                        SYS_tkill,
                        SYS_setuid,
                        SYS_setgid,
                        SYS_setgroups,
                        SYS_capset,
                        SYS_chroot,
                        SYS_reboot,
                        SYS_init_module,
                        SYS_kexec_load,
                        SYS_personality,
                        SYS_quotactl,
                        SYS_swapon,
                        SYS_symlinkat,
                        SYS_linkat,
                        SYS_mknodat,
                        SYS_fchmod,
                        SYS_fchown,
                        SYS_seccomp,
                        SYS_landlock_create_ruleset,
                        SYS_inotify_init1,
                        SYS_fanotify_init,
                        SYS_kcmp,
                        SYS_shmget,
                        SYS_msgget};
  for (const long call : calls) {
    INFO(confine::syscall_name(call));
    CHECK(test::in_child([&] {
            if (confine::confine(plain()).has_error()) {
              return 2;
            }
            errno = 0;
            return ::syscall(call, -1, -1, -1, -1, -1, -1) == -1 && errno == EPERM ? good : 3;
          }) == good);
  }
}

TEST_CASE("i386 and x32 entries end the process") {
  CHECK(test::in_child([] {
          if (confine::confine(plain()).has_error()) {
            return 2;
          }
          constexpr long x32_bit = 0x40000000;
          ::syscall(x32_bit | SYS_getpid);
          return good;
        }) == 128 + SIGSYS);
#ifdef __x86_64__
  CHECK(test::in_child([] {
          if (confine::confine(plain()).has_error()) {
            return 2;
          }
          long result = 20;  // getpid by int 0x80
          __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
          return good;
        }) == 128 + SIGSYS);
#endif
}

TEST_CASE("what adapter code needs still works") {
  CHECK(test::in_child([] {
          if (confine::confine(plain()).has_error()) {
            return 2;
          }
          std::string large(8u << 20, 'x');
          void* map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          timespec now{};
          const bool ok = large.size() == (8u << 20) && map != MAP_FAILED &&
                          ::clock_gettime(CLOCK_MONOTONIC, &now) == 0 && ::write(1, "", 0) == 0 &&
                          ::getpid() > 0;
          std::string text = "thrown";
          try {
            throw std::runtime_error(text);
          } catch (const std::exception& error) {
            return ok && text == error.what() ? good : 3;
          }
        }) == good);
}

TEST_CASE("an adapter is loaded after the confinement, with nothing granted") {
  const auto body = [] {
    const auto sealed = plugins::seal_plugin_file(test::zoo("throws_in_map_events"));  // needs libstdc++
    auto options = plain();
    options.keep_fds.push_back(sealed->fd.get());
    if (confine::confine(options).has_error()) {
      return 2;
    }
    return runner::load_adapter(sealed->fd.get(), sealed->elf.note).has_value() ? good : 3;
  };
  CHECK(test::in_child(body) == good);
  CHECK(test::in_ordinary_child(body) == good);
}

TEST_CASE("abort ends a confined process by its signal and leaves no core") {
  CHECK(test::in_child([] {
          if (confine::confine(plain()).has_error()) {
            return 2;
          }
          rlimit limit{1, 1};
          ::getrlimit(RLIMIT_CORE, &limit);
          if (limit.rlim_max != 0) {
            return 3;
          }
          ::abort();
        }) == 128 + SIGABRT);
}

TEST_CASE("descriptors that are not kept are closed") {
  CHECK(test::in_child([] {
          const int kept = ::open("/dev/null", O_RDONLY);
          const int high = ::fcntl(kept, F_DUPFD, 700);
          const int lost = ::open("/dev/null", O_RDONLY);
          auto options = plain();
          options.keep_fds = {high, 1, kept};
          if (confine::confine(options).has_error()) {
            return 2;
          }
          const auto open_fd = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
          return open_fd(kept) && open_fd(high) && open_fd(1) && !open_fd(lost) && !open_fd(0) && !open_fd(2)
                     ? good
                     : 3;
        }) == good);
}

TEST_CASE("a granted folder can be written, its neighbours and its parent cannot") {
  const auto body = [] {
    const test::TempDir root;
    const std::string base(root.path());
    const std::string inside = base + "/in";
    const std::string outside = base + "/out";
    ::mkdir(inside.c_str(), 0700);
    ::mkdir(outside.c_str(), 0700);
    const int granted = ::open(inside.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto options = plain();
    options.keep_fds.push_back(granted);
    options.grants = {{granted, true}};
    if (confine::confine(options).has_error()) {
      return 2;
    }
    const int file = ::openat(granted, "journal", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool works = file >= 0 && ::write(file, "x", 1) == 1 && ::fdatasync(file) == 0 &&
                       ::ftruncate(file, 0) == 0 && ::mkdirat(granted, "spill", 0700) == 0 &&
                       ::renameat(granted, "journal", granted, "spill/j") == 0 &&
                       ::unlinkat(granted, "spill/j", 0) == 0;
    const bool held =
        outcome([&] { return ::open((outside + "/x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }) ==
            EACCES &&
        outcome([&] { return ::mkdirat(granted, "../out/y", 0700); }) == EACCES &&
        outcome([&] { return ::openat(granted, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }) == EACCES;
    return works ? (held ? good : 4) : 3;
  };
  CHECK(test::in_child(body) == good);
  CHECK(test::in_ordinary_child(body) == good);
}

TEST_CASE("a grant of one file, to read, is no more than that") {
  CHECK(test::in_child([] {
          const test::TempDir root;
          const std::string file = std::string(root.path()) + "/a";
          const int made = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
          auto options = plain();
          options.grants = {{made, false}};
          if (confine::confine(options).has_error()) {
            return 2;
          }
          return outcome([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC); }) == 0 &&
                         outcome([&] { return ::open(file.c_str(), O_RDWR | O_CLOEXEC); }) == EACCES
                     ? good
                     : 3;
        }) == good);
}

TEST_CASE("threads are refused unless asked for, processes always") {
  const auto start_thread = [] {
    try {
      std::thread([] {}).join();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  };
  CHECK(test::in_child(
            [&] { return !confine::confine(plain()).has_error() && !start_thread() ? good : 3; }) == good);
  CHECK(test::in_child([&] {
          auto options = plain();
          options.threads = true;
          if (confine::confine(options).has_error()) {
            return 2;
          }
          return start_thread() &&
                         outcome([] { return spawn_and_reap([]() -> long { return ::fork(); }); }) == EPERM
                     ? good
                     : 3;
        }) == good);
}

TEST_CASE("a thread that was there before is confined too") {
  CHECK(test::in_child([] {
          std::atomic<int> stage = 0;
          int error = 0;
          std::thread other([&] {
            while (stage.load() == 0) {
              std::this_thread::yield();
            }
            error = outcome([] { return ::socket(AF_UNIX, SOCK_STREAM, 0); });
          });
          const bool confined = !confine::confine(plain()).has_error();
          stage = 1;
          other.join();
          return confined && error == EPERM ? good : 3;
        }) == good);
}

TEST_CASE("the trap counts forbidden calls and names the first") {
  CHECK(test::in_child([] {
          static confine::TrapLog trap;
          auto options = plain();
          options.trap = &trap;
          if (confine::confine(options).has_error()) {
            return 2;
          }
          const int error = outcome([] { return ::socket(AF_UNIX, SOCK_STREAM, 0); });
          outcome([] { return ::chdir("/"); });
          return error == EPERM && trap.count == 2 && confine::syscall_name(trap.first_syscall) == "socket"
                     ? good
                     : 3;
        }) == good);
}

TEST_CASE("an older Landlock holds what it can, and the rest is named") {
  CHECK(test::in_child([] {
          auto options = plain();
          options.landlock_abi_cap = 1;
          const auto report = confine::confine(options);
          if (report.has_error() || report->landlock_abi != 1) {
            return 2;
          }
          const auto missing = [&](const char* what) {
            return std::any_of(report->missing.begin(), report->missing.end(),
                               [&](const std::string& text) { return text.find(what) != std::string::npos; });
          };
          const bool named =
              missing("truncation") && missing("TCP") && missing("signals") && missing("links");
          return named && outcome([] { return ::open("/etc/passwd", O_RDONLY); }) == EACCES ? good : 3;
        }) == good);
}

TEST_CASE("without Landlock nothing is promised and the caller is told") {
  CHECK(test::in_child([] {
          // A kernel without it, as a filter shows one.
          scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
          seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SYS_landlock_create_ruleset, 0);
          if (seccomp_load(filter) != 0) {
            return 2;
          }
          const auto report = confine::confine(plain());
          return report.has_error() && report.error().code == "landlock-unavailable" &&
                         report.error().kind == ErrorClass::environment && !report.error().remedy.empty()
                     ? good
                     : 3;
        }) == good);
}

TEST_CASE("a restart or a second confinement adds and never takes away") {
  CHECK(test::in_child([] {
          if (confine::confine(plain()).has_error()) {
            return 2;
          }
          return confine::confine(plain()).has_error() &&
                         outcome([] { return ::socket(AF_UNIX, SOCK_STREAM, 0); }) == EPERM
                     ? good
                     : 3;
        }) == good);
}

}  // namespace
