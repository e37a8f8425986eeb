#include "gate/confine.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <initializer_list>

#include "gate/wire.hpp"
#include "init/kernel.hpp"

namespace hitchrail::gate {
namespace {

constexpr std::uint64_t read_file = 1u << 2;
constexpr std::uint64_t all_file_rights_v1 = (1u << 13) - 1;

// Landlock is the second layer here: a kernel without it still has the filter below.
const char* limit_files() {
  const long abi = syscall(444, nullptr, std::size_t{0}, kernel::landlock_query_version);
  if (abi < 1) {
    return nullptr;
  }
  kernel::LandlockAttributes attributes{};
  attributes.handled_fs =
      all_file_rights_v1 | (abi >= 2 ? 1u << 13 : 0) | (abi >= 3 ? 1u << 14 : 0) | (abi >= 5 ? 1u << 15 : 0);
  attributes.scoped = abi >= 6 ? 3 : 0;
  const std::size_t size = abi >= 6   ? sizeof attributes
                           : abi >= 4 ? sizeof(std::uint64_t) * 2
                                      : sizeof(std::uint64_t);
  const int ruleset = kernel::landlock_create(&attributes, size, 0);
  if (ruleset < 0) {
    return "landlock";
  }
  // What getaddrinfo() reads. One that is replaced under its name during a run cannot be read again.
  for (const char* path :
       {"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"}) {
    const int file = open(path, O_PATH | O_CLOEXEC);
    const kernel::LandlockPathRule rule{read_file, file};
    if (file >= 0 && kernel::landlock_add(ruleset, &rule) != 0) {
      return "landlock-rule";
    }
    close(file);
  }
  if (kernel::landlock_restrict(ruleset) != 0) {
    return "landlock";
  }
  close(ruleset);
  return nullptr;
}

const char* drop_capabilities() {
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_READ, capability) < 0) {
      break;
    }
    (void)prctl(PR_CAPBSET_DROP, capability);  // needs CAP_SETPCAP; who has none has none to lose
  }
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0 ? nullptr : "capabilities";
}

void reset_signals() {
  constexpr int count = 64;
  const unsigned long standard[4] = {};  // SIG_DFL, no flags, no restorer, empty mask
  for (int number = 1; number <= count; ++number) {
    (void)syscall(SYS_rt_sigaction, number, standard, nullptr, sizeof(unsigned long));
  }
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool parent_alive() {
  pollfd entry{gatewire::gate_events, 0, 0};
  return poll(&entry, 1, 0) >= 0 && (entry.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

constexpr const char* plain_calls[] = {
    "accept4",     "brk",          "clock_gettime",  "clock_nanosleep",
    "close",       "connect",      "epoll_ctl",      "epoll_pwait",
    "epoll_wait",  "exit",         "exit_group",     "fstat",
    "futex",       "getpeername",  "getpid",         "getrandom",
    "getsockname", "getsockopt",   "gettid",         "gettimeofday",
    "lseek",       "madvise",      "mremap",         "munmap",
    "newfstatat",  "poll",         "ppoll",          "pread64",
    "read",        "recvfrom",     "recvmsg",        "restart_syscall",
    "rseq",        "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "sched_yield", "sendmmsg",     "sendmsg",        "sendto",
    "setsockopt",  "shutdown",     "stat",           "sysinfo",
    "uname",       "write",        "writev",
};

bool add_rules(scmp_filter_ctx filter) {
  bool ok = true;
  const auto allow = [&](const char* name, std::initializer_list<scmp_arg_cmp> when = {}) {
    ok = ok && seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name),
                                      static_cast<unsigned>(when.size()), when.begin()) == 0;
  };
  for (const char* name : plain_calls) {
    allow(name);
  }
  // SOCK_STREAM and SOCK_DGRAM over IPv4 and IPv6; flags beside the type.
  for (const std::uint64_t family : {AF_INET, AF_INET6}) {
    for (const std::uint64_t type : {SOCK_STREAM, SOCK_DGRAM}) {
      allow("socket", {SCMP_CMP(0, SCMP_CMP_EQ, family, 0), SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, type)});
    }
  }
  constexpr std::uint64_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  allow("openat", {SCMP_CMP(2, SCMP_CMP_MASKED_EQ, writing, std::uint64_t{0})});
  allow("open", {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, writing, std::uint64_t{0})});
  allow("mmap", {SCMP_CMP(2, SCMP_CMP_MASKED_EQ, std::uint64_t{PROT_EXEC}, std::uint64_t{0})});
  allow("mprotect", {SCMP_CMP(2, SCMP_CMP_MASKED_EQ, std::uint64_t{PROT_EXEC}, std::uint64_t{0})});
  allow("ioctl", {SCMP_CMP(1, SCMP_CMP_EQ, std::uint64_t{0x541B}, 0)});  // FIONREAD
  allow("fcntl", {SCMP_CMP(1, SCMP_CMP_EQ, std::uint64_t{F_GETFL}, 0)});
  allow("fcntl", {SCMP_CMP(1, SCMP_CMP_EQ, std::uint64_t{F_SETFL}, 0)});
  allow("fcntl", {SCMP_CMP(1, SCMP_CMP_EQ, std::uint64_t{F_GETFD}, 0)});
  allow("fcntl", {SCMP_CMP(1, SCMP_CMP_EQ, std::uint64_t{F_SETFD}, 0)});
  return ok;
}

}  // namespace

const char* give_up_privileges(int descriptor_end) {
  reset_signals();
  const rlimit none{0, 0};
  const rlimit descriptors{512, 512};
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || !parent_alive()) {
    return "parent";
  }
  if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || chdir("/") != 0) {
    return "limits";
  }
  (void)prctl(PR_SET_NAME, "hitchrail-gate");    // executed by descriptor it would be a number
  (void)setrlimit(RLIMIT_NOFILE, &descriptors);  // a smaller one of the caller stays as it is
  if (syscall(SYS_close_range, static_cast<unsigned>(descriptor_end), ~0U, 0U) != 0) {
    return "descriptors";
  }
  if (const char* wrong = drop_capabilities()) {
    return wrong;
  }
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || !parent_alive()) {
    return "parent";  // the kernel forgets the death signal when credentials change
  }
  return limit_files();
}

const char* load_filter() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  const bool loaded = filter != nullptr &&
                      seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
                      seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1) == 0 &&
                      seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 &&
                      seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 && add_rules(filter) &&
                      seccomp_load(filter) == 0;
  seccomp_release(filter);
  return loaded ? nullptr : "seccomp";
}

}  // namespace hitchrail::gate
