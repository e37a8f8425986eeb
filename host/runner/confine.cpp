#include "runner/confine.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/fd.hpp"
#include "runner/confine_calls.hpp"

namespace hitchrail::confine {
namespace {

// Landlock by ABI. Debian 12's headers end at ABI 2, kernels do not, so the later ones are written out.
constexpr std::uint64_t access_read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t access_truncate = 1u << 14;   // ABI 3
constexpr std::uint64_t access_ioctl_dev = 1u << 15;  // ABI 5
constexpr std::uint64_t access_files_v1 = (1u << 13) - 1;
constexpr std::uint64_t access_write = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                                       LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                       LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER |
                                       access_truncate;
constexpr std::uint64_t access_of_file =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | access_truncate;
constexpr std::uint64_t net_tcp = 3;     // ABI 4: bind, connect
constexpr std::uint64_t scope_both = 3;  // ABI 6: abstract sockets, signals

struct RulesetAttr {  // as ABI 6 has it; the kernel is told how much of it we send
  std::uint64_t handled_access_fs = 0;
  std::uint64_t handled_access_net = 0;
  std::uint64_t scoped = 0;
};

Error step_failed(std::string code, std::string object, int error_number, std::string remedy = {}) {
  Error error = errno_error("confine", std::move(object), error_number);
  error.kind = ErrorClass::environment;
  error.code = std::move(code);
  error.remedy = std::move(remedy);
  return error;
}

Status close_all_but(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned from = 0;
  const auto close_range_to = [&](unsigned last) -> Status {
    if (from <= last && ::syscall(SYS_close_range, from, last, 0U) != 0) {
      return step_failed("confine-failed", "close descriptors", errno);
    }
    return {};
  };
  for (const int fd : keep) {
    if (fd < 0 || static_cast<unsigned>(fd) < from) {
      continue;
    }
    if (fd > 0) {
      HR_CHECK(close_range_to(static_cast<unsigned>(fd) - 1));
    }
    from = static_cast<unsigned>(fd) + 1;
  }
  return close_range_to(~0U);
}

std::uint64_t handled_files(int abi) {
  std::uint64_t handled = access_files_v1;
  if (abi >= 2) {
    handled |= LANDLOCK_ACCESS_FS_REFER;
  }
  if (abi >= 3) {
    handled |= access_truncate;
  }
  if (abi >= 5) {
    handled |= access_ioctl_dev;
  }
  return handled;
}

Status apply_landlock(const Options& options, Report& report) {
  const int own = landlock_abi();
  const int abi = options.landlock_abi_cap > 0 ? std::min(own, options.landlock_abi_cap) : own;
  if (abi < 1) {
    return step_failed("landlock-unavailable", "Landlock", ENOSYS,
                       "Boot a kernel with Landlock (CONFIG_SECURITY_LANDLOCK, lsm=landlock,...).");
  }
  report.landlock_abi = abi;
  RulesetAttr attr;
  attr.handled_access_fs = handled_files(abi);
  std::size_t size = sizeof attr.handled_access_fs;
  if (abi >= 4) {
    attr.handled_access_net = net_tcp;
    size = offsetof(RulesetAttr, scoped);
  }
  if (abi >= 6) {
    attr.scoped = scope_both;
    size = sizeof attr;
  }
  const Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attr, size, 0U)));
  if (!ruleset) {
    return step_failed("landlock-unavailable", "landlock_create_ruleset", errno);
  }
  for (const Grant& grant : options.grants) {
    struct stat status {};
    if (::fstat(grant.fd, &status) != 0) {
      return step_failed("confine-failed", "grant", errno);
    }
    landlock_path_beneath_attr rule{};
    rule.allowed_access = (access_read | (grant.write ? access_write : 0)) & attr.handled_access_fs;
    if (!S_ISDIR(status.st_mode)) {
      rule.allowed_access &= access_of_file;
    }
    rule.parent_fd = grant.fd;
    if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) != 0) {
      return step_failed("confine-failed", "landlock_add_rule", errno);
    }
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0U) != 0) {
    return step_failed("confine-failed", "landlock_restrict_self", errno);
  }
  report.holds.emplace_back("landlock: files");
  const auto since = [&](int needed, const char* what) {
    (abi >= needed ? report.holds : report.missing)
        .push_back("landlock: " + std::string(what) + " (ABI " + std::to_string(needed) + ")");
  };
  since(2, "links and renames between folders");
  since(3, "truncation");
  since(4, "TCP");
  since(5, "device ioctls");
  since(6, "signals and abstract sockets");
  return {};
}

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

bool allow(const Filter& filter, const char* name, std::vector<scmp_arg_cmp> when = {}) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) {
    return true;  // a call this libseccomp does not know stays forbidden
  }
  return seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, number, static_cast<unsigned>(when.size()),
                                when.empty() ? nullptr : when.data()) == 0;
}

bool allow_each(const Filter& filter, const char* name, unsigned argument,
                std::span<const std::uint64_t> values) {
  return std::all_of(values.begin(), values.end(), [&](std::uint64_t value) {
    return allow(filter, name, {SCMP_CMP(argument, SCMP_CMP_EQ, value, 0)});
  });
}

bool add_rules(const Filter& filter, const Options& options) {
  bool ok = true;
  for (const char* name : plain_calls) {
    ok = ok && allow(filter, name);
  }
  const auto self = static_cast<std::uint64_t>(::getpid());
  ok = ok && allow_each(filter, "kill", 0, std::array{self}) &&
       allow_each(filter, "tgkill", 0, std::array{self});
  ok = ok && allow_each(filter, "fcntl", 1, fcntl_commands) &&
       allow_each(filter, "prctl", 0, prctl_options) && allow_each(filter, "ioctl", 1, ioctl_requests);
  // Limits of the own process may be read only.
  ok = ok &&
       allow(filter, "prlimit64",
             {SCMP_CMP(0, SCMP_CMP_EQ, std::uint64_t{0}, 0), SCMP_CMP(2, SCMP_CMP_EQ, std::uint64_t{0}, 0)});
  if (options.threads) {
    // clone3 hides its flags behind a pointer: libc falls back to clone, whose flags a filter can see.
    ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0 &&
         allow(filter, "clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, clone_thread_mask, clone_thread_flags)});
    for (const char* name : thread_calls) {
      ok = ok && allow(filter, name);
    }
  }
  return ok;
}

TrapLog* trap_log = nullptr;

void on_forbidden_call(int /*signal*/, siginfo_t* info, void* context) {
  if (trap_log->count == 0) {
    trap_log->first_syscall = info->si_syscall;
  }
  trap_log->count = trap_log->count + 1;
  auto* machine = static_cast<ucontext_t*>(context);
  machine->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

Status install_trap(TrapLog* log) {
  trap_log = log;
  struct sigaction action {};
  action.sa_sigaction = on_forbidden_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) {
    return step_failed("confine-failed", "sigaction", errno);
  }
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSYS);
  if (::sigprocmask(SIG_UNBLOCK, &set, nullptr) != 0) {
    return step_failed("confine-failed", "sigprocmask", errno);
  }
  return {};
}

Status apply_seccomp(const Options& options, Report& report) {
  const std::uint32_t forbidden = options.trap != nullptr ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
  if (options.trap != nullptr) {
    HR_CHECK(install_trap(options.trap));
  }
  const Filter filter(seccomp_init(forbidden), &seccomp_release);
  const char* remedy = "Boot a kernel with seccomp filters (CONFIG_SECCOMP_FILTER).";
  if (!filter) {
    return step_failed("seccomp-unavailable", "seccomp_init", ENOMEM, remedy);
  }
  // A foreign entry (i386, x32) ends the process: its call numbers mean something else.
  if (seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0 ||
      seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_NNP, 1) != 0 ||
      seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1) != 0 ||
      seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2) != 0 || !add_rules(filter, options)) {
    return step_failed("seccomp-unavailable", "seccomp filter", EINVAL, remedy);
  }
  const int result = seccomp_load(filter.get());
  if (result != 0) {
    return step_failed("seccomp-unavailable", "seccomp_load", -result, remedy);
  }
  report.holds.emplace_back("seccomp: allow-list of " + std::to_string(plain_calls.size() + 6) + " calls");
  report.holds.emplace_back(options.threads ? "seccomp: no new processes"
                                            : "seccomp: no new processes or threads");
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

std::string syscall_name(long number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(number));
  if (name == nullptr) {
    return "call " + std::to_string(number);
  }
  std::string out(name);
  std::free(name);
  return out;
}

Result<Report> confine(const Options& options) {
  Report report;
  std::vector<int> keep = options.keep_fds;
  for (const Grant& grant : options.grants) {
    keep.push_back(grant.fd);  // until the rules are made
  }
  HR_CHECK(close_all_but(keep));
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) {
    return step_failed("confine-failed", "RLIMIT_CORE", errno);
  }
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return step_failed("confine-failed", "PR_SET_DUMPABLE", errno);
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return step_failed("confine-failed", "PR_SET_NO_NEW_PRIVS", errno);
  }
  report.holds.emplace_back("process: no core dump, not dumpable, no new privileges");
  HR_CHECK(apply_landlock(options, report));
  HR_CHECK(close_all_but(options.keep_fds));
  HR_CHECK(apply_seccomp(options, report));
  return report;
}

}  // namespace hitchrail::confine
