// The seccomp filter: everything is allowed but what neither namespaces, capabilities nor Landlock cover.
// Compiled by libseccomp once per process and variant and kept as bytes (compiling costs more than half of a
// whole launch).
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "boundary/internal.hpp"
#include "core/file.hpp"

namespace hitchrail::boundary {
namespace {

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

// Calls newer than this are answered ENOSYS: what they can do was not judged. (466 = removexattrat; 467 is
// open_tree_attr.)
constexpr std::uint32_t last_known_call = 466;
constexpr int nr_fchmodat2 = 452;
constexpr int nr_setxattrat = 463;
constexpr int nr_removexattrat = 466;
constexpr std::uint64_t rename_whiteout = 1u << 2;

class Builder {
 public:
  Builder() : context_(seccomp_init(SCMP_ACT_ALLOW)) {}
  ~Builder() { seccomp_release(context_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  template <class... Comparisons>
  void deny(int error_number, int call, Comparisons... comparisons) {
    if (call == __NR_SCMP_ERROR) {
      return;  // unknown to this library on this architecture: above last_known_call or not there
    }
    std::array<scmp_arg_cmp, sizeof...(comparisons) + 1> list{comparisons..., scmp_arg_cmp{}};
    const int result =
        seccomp_rule_add_array(context_, SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error_number)), call,
                               sizeof...(comparisons), list.data());
    // -EDOM/-EINVAL: a call this architecture does not have at all (aarch64 has no open()).
    if (result < 0 && result != -EDOM) {
      failed_ = result;
    }
  }
  void deny(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      deny(EPERM, seccomp_syscall_resolve_name(name));
    }
  }
  scmp_filter_ctx context() { return context_; }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  scmp_filter_ctx context_;
  int failed_ = 0;
};

scmp_arg_cmp has_bits(unsigned arg, std::uint64_t mask, std::uint64_t value) {
  return scmp_arg_cmp{arg, SCMP_CMP_MASKED_EQ, mask, value};
}
scmp_arg_cmp bit(unsigned arg, std::uint64_t mask) {
  return has_bits(arg, mask, mask);
}
scmp_arg_cmp equal(unsigned arg, std::uint64_t value) {
  return scmp_arg_cmp{arg, SCMP_CMP_EQ, value, 0};
}

void namespaces_and_mounts(Builder& builder, bool nested) {
  builder.deny({"setns", "open_by_handle_at", "name_to_handle_at", "swapon", "swapoff", "quotactl",
                "quotactl_fd", "acct"});
  // Its flags are behind a pointer; the C library falls back to clone.
  builder.deny(ENOSYS, SCMP_SYS(clone3));
  if (nested) {
    return;
  }
  builder.deny({"mount", "umount2", "umount", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
                "fsconfig", "fsmount", "fspick", "mount_setattr"});
  for (const std::uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                                   CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME}) {
    builder.deny(EPERM, SCMP_SYS(unshare), bit(0, flag));
    if (flag != CLONE_NEWTIME) {  // the same bit is part of clone's exit signal
      builder.deny(EPERM, SCMP_SYS(clone), bit(0, flag));
    }
  }
}

void other_processes_and_kernel(Builder& builder) {
  builder.deny({"ptrace",
                "process_vm_readv",
                "process_vm_writev",
                "process_madvise",
                "kcmp",
                "pidfd_getfd",
                "io_uring_setup",
                "io_uring_enter",
                "io_uring_register",
                "keyctl",
                "add_key",
                "request_key",
                "bpf",
                "perf_event_open",
                "userfaultfd",
                "fanotify_init",
                "kexec_load",
                "kexec_file_load",
                "init_module",
                "finit_module",
                "delete_module",
                "reboot",
                "syslog",
                "iopl",
                "ioperm",
                "sethostname",
                "setdomainname",
                "settimeofday",
                "clock_settime",
                "clock_adjtime",
                "adjtimex",
                "lookup_dcookie",
                "move_pages",
                "migrate_pages",
                "vhangup",
                "uselib",
                "nfsservctl",
                "_sysctl"});
  // The kernel looks at 32 bits of the request, so the comparison must too.
  builder.deny(EPERM, SCMP_SYS(ioctl), has_bits(1, 0xffffffffu, TIOCSTI));
  builder.deny(EPERM, SCMP_SYS(ioctl), has_bits(1, 0xffffffffu, 0x541c /* TIOCLINUX */));
}

// Landlock judges content and names, not what else an owner may change of a file that it can only read.
void metadata(Builder& builder) {
  builder.deny({"chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat", "utime", "utimes",
                "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
                "fremovexattr"});
  for (const int call : {nr_fchmodat2, nr_setxattrat, nr_removexattrat}) {
    builder.deny(EPERM, call);
  }
  constexpr std::uint64_t requests[] = {0x40086602, 0x40046602,
                                        0x401c5820};  // FS_IOC_SETFLAGS, 32, FSSETXATTR
  for (const std::uint64_t request : requests) {
    builder.deny(EPERM, SCMP_SYS(ioctl), has_bits(1, 0xffffffffu, request));
  }
}

void set_id_files(Builder& builder, bool metadata_held) {
  for (const std::uint64_t mode : {S_ISUID, S_ISGID}) {
    if (!metadata_held) {
      builder.deny(EPERM, SCMP_SYS(chmod), bit(1, mode));
      builder.deny(EPERM, SCMP_SYS(fchmod), bit(1, mode));
      builder.deny(EPERM, SCMP_SYS(fchmodat), bit(2, mode));
      builder.deny(EPERM, nr_fchmodat2, bit(2, mode));
    }
    builder.deny(EPERM, SCMP_SYS(creat), bit(1, mode));
    builder.deny(EPERM, SCMP_SYS(mknod), bit(1, mode));
    builder.deny(EPERM, SCMP_SYS(mknodat), bit(2, mode));
    // Without one of these flags the mode is not looked at and may be anything. __O_TMPFILE is the bit
    // besides O_DIRECTORY.
    for (const std::uint64_t making : {std::uint64_t{O_CREAT}, std::uint64_t{O_TMPFILE & ~O_DIRECTORY}}) {
      builder.deny(EPERM, SCMP_SYS(open), bit(1, making), bit(2, mode));
      builder.deny(EPERM, SCMP_SYS(openat), bit(2, making), bit(3, mode));
    }
  }
  builder.deny(ENOSYS, SCMP_SYS(openat2));  // its mode is behind a pointer
  for (const std::uint64_t type : {S_IFCHR, S_IFBLK}) {
    builder.deny(EPERM, SCMP_SYS(mknod), has_bits(1, S_IFMT, type));
    builder.deny(EPERM, SCMP_SYS(mknodat), has_bits(2, S_IFMT, type));
  }
  // Leaves a character device behind, which the kernel lets everybody make (0:0).
  builder.deny(EPERM, SCMP_SYS(renameat2), bit(4, rename_whiteout));
}

// In a user namespace of its own a run has CAP_SETFCAP, and through an idmapped tree the capability of a file
// that it sets there would be one of the host's. The attribute's name is behind a pointer, so none can be
// set.
void file_capabilities(Builder& builder) {
  for (const int call : {SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr), nr_setxattrat}) {
    builder.deny(EOPNOTSUPP, call);
  }
}

void sockets(Builder& builder, const FilterOptions& options) {
  const int call = SCMP_SYS(socket);
  const auto family = [&](std::uint64_t number, bool allowed) {
    if (!allowed) {
      builder.deny(EAFNOSUPPORT, call, equal(0, number));
    }
  };
  for (std::uint64_t number = 0; number < AF_NETLINK; ++number) {
    const bool inet = number == AF_INET || number == AF_INET6;
    family(number, (number == AF_UNIX && options.unix_sockets) || (inet && options.inet));
  }
  if (options.inet || options.nested) {
    builder.deny(EAFNOSUPPORT, call, equal(0, AF_NETLINK),
                 scmp_arg_cmp{2, SCMP_CMP_NE, 0, 0});  // 0 = NETLINK_ROUTE
  } else {
    family(AF_NETLINK, false);
  }
  builder.deny(EAFNOSUPPORT, call, scmp_arg_cmp{0, SCMP_CMP_GT, AF_NETLINK, 0});
}

Error failure(int error_number, const char* what) {
  return Error{ErrorClass::environment,     "seccomp-compile-failed",         "compile seccomp filter", what,
               std::strerror(error_number), "Check the installed libseccomp."};
}

// In front of the exported program: numbers above the last known one get ENOSYS. x32 numbers and those of
// another architecture go on and are killed there.
std::string unknown_calls_refused(const std::string& program) {
  const sock_filter head[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last_known_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  return std::string(reinterpret_cast<const char*>(head), sizeof head) + program;
}

Result<std::string> compile_filter(const FilterOptions& options) {
  Builder builder;
  if (builder.context() == nullptr) {
    return failure(ENOMEM, "init");
  }
  seccomp_attr_set(builder.context(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  seccomp_attr_set(builder.context(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // binary tree over the numbers
  namespaces_and_mounts(builder, options.nested);
  other_processes_and_kernel(builder);
  set_id_files(builder, options.metadata_held);
  if (options.metadata_held) {
    metadata(builder);
  }
  if (options.nested) {
    file_capabilities(builder);
  }
  sockets(builder, options);
  if (builder.failed() != 0) {
    return failure(-builder.failed(), "rule");
  }
  Fd memory(memfd_create("hitchrail-filter", MFD_CLOEXEC));
  if (!memory) {
    return failure(errno, "memfd");
  }
  const int exported = seccomp_export_bpf(builder.context(), memory.get());
  if (exported < 0) {
    return failure(-exported, "export");
  }
  if (lseek(memory.get(), 0, SEEK_SET) < 0) {
    return failure(errno, "seek");
  }
  HR_TRY(program, read_all(memory.get(), 1u << 20));
  return unknown_calls_refused(program);
}

}  // namespace

Result<std::string> seccomp_filter(const FilterOptions& options) {
  static std::mutex mutex;
  static std::array<std::string, 16> compiled;
  const std::lock_guard lock(mutex);
  std::string& bytes = compiled[(options.metadata_held ? 8u : 0u) + (options.nested ? 4u : 0u) +
                                (options.inet ? 2u : 0u) + (options.unix_sockets ? 1u : 0u)];
  if (bytes.empty()) {
    HR_TRY(made, compile_filter(options));
    bytes = std::move(made);
  }
  return bytes;
}

}  // namespace hitchrail::boundary
