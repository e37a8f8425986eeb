// The compiled filter, run by an interpreter over every system call number and the arguments that decide.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "boundary/boundary.hpp"

using namespace hitchrail::boundary;

namespace {

using Arguments = std::array<std::uint64_t, 6>;
constexpr std::uint32_t allow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t killed = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint32_t error(int number) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(number);
}
constexpr std::uint64_t high = 1ull << 32;

class Filter {
 public:
  explicit Filter(const FilterOptions& options) {
    const std::string bytes = seccomp_filter(options).value();
    REQUIRE(bytes.size() % sizeof(sock_filter) == 0);
    program_.resize(bytes.size() / sizeof(sock_filter));
    std::memcpy(program_.data(), bytes.data(), bytes.size());
    REQUIRE(program_.size() <= 4096);  // BPF_MAXINSNS
  }

  std::uint32_t operator()(long call, const Arguments& arguments = {},
                           std::uint32_t architecture = AUDIT_ARCH_X86_64) const {
    seccomp_data data{};
    data.nr = static_cast<int>(call);
    data.arch = architecture;
    std::copy(arguments.begin(), arguments.end(), data.args);
    return run(data);
  }

 private:
  // Only what the kernel accepts for seccomp and libseccomp writes.
  std::uint32_t run(const seccomp_data& data) const {
    std::uint32_t a = 0;
    for (std::size_t at = 0; at < program_.size(); ++at) {
      const sock_filter& code = program_[at];
      const auto jump = [&](bool taken) { at += taken ? code.jt : code.jf; };
      switch (code.code) {
        case BPF_LD | BPF_W | BPF_ABS:
          REQUIRE(code.k + 4 <= sizeof data);
          std::memcpy(&a, reinterpret_cast<const char*>(&data) + code.k, sizeof a);
          break;
        case BPF_ALU | BPF_AND | BPF_K:
          a &= code.k;
          break;
        case BPF_JMP | BPF_JA:
          at += code.k;
          break;
        case BPF_JMP | BPF_JEQ | BPF_K:
          jump(a == code.k);
          break;
        case BPF_JMP | BPF_JGT | BPF_K:
          jump(a > code.k);
          break;
        case BPF_JMP | BPF_JGE | BPF_K:
          jump(a >= code.k);
          break;
        case BPF_JMP | BPF_JSET | BPF_K:
          jump((a & code.k) != 0);
          break;
        case BPF_RET | BPF_K:
          return code.k;
        default:
          FAIL("instruction " << code.code);
      }
    }
    FAIL("the program ends without an answer");
    return 0;
  }

  std::vector<sock_filter> program_;
};

std::vector<FilterOptions> variants() {
  std::vector<FilterOptions> all;
  for (const bool inet : {false, true}) {
    for (const bool unix_sockets : {false, true}) {
      for (const bool nested : {false, true}) {
        all.push_back({.inet = inet, .unix_sockets = unix_sockets, .nested = nested});
      }
    }
  }
  return all;
}

std::vector<Arguments> some_arguments(unsigned count) {
  std::mt19937_64 random(20);
  std::vector<Arguments> list{{}, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}};
  for (unsigned i = 0; i < count; ++i) {
    Arguments arguments;
    for (std::uint64_t& each : arguments) {
      each = random() >> (random() % 64);
    }
    list.push_back(arguments);
  }
  return list;
}

// Refused whatever the arguments.
constexpr long never[] = {SYS_setns,
                          SYS_open_by_handle_at,
                          SYS_name_to_handle_at,
                          SYS_swapon,
                          SYS_swapoff,
                          SYS_quotactl,
                          SYS_quotactl_fd,
                          SYS_acct,
                          SYS_ptrace,
                          SYS_process_vm_readv,
                          SYS_kcmp,
                          SYS_process_vm_writev,
                          SYS_process_madvise,
                          SYS_pidfd_getfd,
                          SYS_io_uring_setup,
                          SYS_keyctl,
                          SYS_io_uring_register,
                          SYS_io_uring_enter,
                          SYS_add_key,
                          SYS_request_key,
                          SYS_bpf,
                          SYS_perf_event_open,
                          SYS_userfaultfd,
                          SYS_fanotify_init,
                          SYS_kexec_load,
                          SYS_init_module,
                          SYS_kexec_file_load,
                          SYS_finit_module,
                          SYS_delete_module,
                          SYS_reboot,
                          SYS_syslog,
                          SYS_iopl,
                          SYS_ioperm,
                          SYS_sethostname,
                          SYS_setdomainname,
                          SYS_settimeofday,
                          SYS_clock_settime,
                          SYS_clock_adjtime,
                          SYS_adjtimex,
                          SYS_move_pages,
                          SYS_migrate_pages,
                          SYS_vhangup};
constexpr long mount_family[] = {SYS_mount,      SYS_umount2,   SYS_pivot_root,   SYS_chroot,
                                 SYS_move_mount, SYS_open_tree, SYS_fsopen,       SYS_fsconfig,
                                 SYS_fsmount,    SYS_fspick,    SYS_mount_setattr};
constexpr std::uint64_t namespace_flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                             CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

// The calls the filter looks into, or answers by itself; every other is allowed.
std::set<long> special_calls() {
  std::set<long> special(std::begin(never), std::end(never));
  special.insert(std::begin(mount_family), std::end(mount_family));
  special.insert(
      {SYS_clone,     SYS_clone3,  SYS_unshare,        SYS_ioctl,     SYS_chmod,      SYS_fchmod,
       SYS_fchmodat,  452,         SYS_creat,          SYS_mknod,     SYS_mknodat,    SYS_open,
       SYS_openat,    SYS_openat2, SYS_socket,         SYS_renameat2, SYS_setxattr,   SYS_lsetxattr,
       SYS_fsetxattr, 463,         SYS_lookup_dcookie, SYS_uselib,    SYS_nfsservctl, SYS__sysctl});
  return special;
}

}  // namespace

TEST_CASE("filter: another architecture and x32 numbers are killed, numbers of newer kernels do not exist") {
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (long call = 0; call < 600; ++call) {
      REQUIRE(filter(call, {}, AUDIT_ARCH_I386) == killed);
      REQUIRE(filter(0x40000000 + call) == killed);
      if (call > 466) {
        REQUIRE(filter(call) == error(ENOSYS));
      }
    }
    REQUIRE(filter(0x3fffffff) == error(ENOSYS));
  }
}

TEST_CASE(
    "filter: what is never allowed is refused whatever its arguments, what is not looked at is allowed") {
  const auto arguments = some_arguments(60);
  const std::set<long> special = special_calls();
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (const Arguments& each : arguments) {
      for (const long call : never) {
        REQUIRE(filter(call, each) == error(EPERM));
      }
      for (const long call : mount_family) {
        REQUIRE(filter(call, each) == (options.nested ? allow : error(EPERM)));
      }
      for (long call = 0; call <= 466; ++call) {
        if (special.count(call) == 0) {
          INFO(call);
          REQUIRE(filter(call, each) == allow);
        }
      }
    }
  }
}

TEST_CASE("filter: no set-id bit and no device in any form of chmod, open, creat and mknod") {
  const Filter filter(FilterOptions{});
  for (std::uint64_t mode = 0; mode < 010000; ++mode) {
    const std::uint32_t wanted = (mode & 06000) != 0 ? error(EPERM) : allow;
    for (const std::uint64_t garbage :
         std::initializer_list<std::uint64_t>{0ull, high, 1ull << 63, 0xffff0000ull}) {
      const std::uint64_t value = mode | garbage;
      REQUIRE(filter(SYS_chmod, {0, value}) == wanted);
      REQUIRE(filter(SYS_fchmod, {0, value}) == wanted);
      REQUIRE(filter(SYS_fchmodat, {0, 0, value}) == wanted);
      REQUIRE(filter(452, {0, 0, value, 0x100}) == wanted);
      REQUIRE(filter(SYS_creat, {0, value}) == wanted);
      for (const std::uint64_t making : {std::uint64_t{O_CREAT}, std::uint64_t{O_TMPFILE}}) {
        REQUIRE(filter(SYS_open, {0, making | O_WRONLY | garbage, value}) == wanted);
        REQUIRE(filter(SYS_openat, {0, 0, making | O_RDWR | garbage, value}) == wanted);
      }
      REQUIRE(filter(SYS_open, {0, O_RDONLY, value}) == allow);  // the mode is not looked at then
      REQUIRE(filter(SYS_openat, {0, 0, O_DIRECTORY, value}) == allow);
    }
    for (const std::uint64_t type : {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
      const bool device = type == S_IFCHR || type == S_IFBLK;
      REQUIRE(filter(SYS_mknod, {0, type | mode}) == (device ? error(EPERM) : wanted));
      REQUIRE(filter(SYS_mknodat, {0, 0, type | mode | high}) == (device ? error(EPERM) : wanted));
    }
  }
  for (const Arguments& each : some_arguments(20)) {
    CHECK(filter(SYS_openat2, each) == error(ENOSYS));
  }
}

TEST_CASE("filter: terminal injection is compared in the 32 bits that the kernel looks at (PB-04)") {
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (const std::uint64_t garbage :
         std::initializer_list<std::uint64_t>{0ull, high, 0xdeadbeefull << 32, 1ull << 63}) {
      CHECK(filter(SYS_ioctl, {0, 0x5412 | garbage}) == error(EPERM));  // TIOCSTI
      CHECK(filter(SYS_ioctl, {0, 0x541c | garbage}) == error(EPERM));  // TIOCLINUX
      CHECK(filter(SYS_ioctl, {0, 0x5413 | garbage}) == allow);         // TIOCGWINSZ
      CHECK(filter(SYS_ioctl, {0x5412, 0x5401 | garbage, 0x5412}) == allow);
    }
  }
}

TEST_CASE("filter: namespaces are for the permissive preset only") {
  const Filter strict(FilterOptions{});
  const Filter nested(FilterOptions{.nested = true});
  for (const std::uint64_t flag : namespace_flags) {
    for (const std::uint64_t more : std::initializer_list<std::uint64_t>{0ull, 17ull, high, 0x00800000ull}) {
      CHECK(strict(SYS_clone, {flag | more}) == error(EPERM));
      CHECK(strict(SYS_unshare, {flag | more}) == error(EPERM));
      CHECK(nested(SYS_clone, {flag | more}) == allow);
      CHECK(nested(SYS_unshare, {flag | more}) == allow);
    }
  }
  CHECK(strict(SYS_unshare, {0x80}) == error(EPERM));
  CHECK(strict(SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD}) == allow);
  CHECK(strict(SYS_clone, {17}) == allow);
  CHECK(strict(SYS_clone3) == error(ENOSYS));
  CHECK(nested(SYS_clone3) == error(ENOSYS));
}

TEST_CASE("filter: where namespaces are allowed no extended attribute can be set, whatever its name") {
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (const Arguments& each : some_arguments(20)) {
      for (const long call : {long{SYS_setxattr}, long{SYS_lsetxattr}, long{SYS_fsetxattr}, 463L}) {
        INFO(call);
        CHECK(filter(call, each) == (options.nested ? error(EOPNOTSUPP) : allow));
      }
    }
  }
}

TEST_CASE("filter: where trees are only read nothing else of a file can be changed either") {
  const Filter held(FilterOptions{.metadata_held = true});
  const Filter plain(FilterOptions{});
  const long calls[] = {SYS_chmod,       SYS_fchmod,       SYS_fchmodat,     452,
                        SYS_chown,       SYS_lchown,       SYS_fchown,       SYS_fchownat,
                        SYS_utime,       SYS_utimes,       SYS_futimesat,    SYS_utimensat,
                        SYS_setxattr,    SYS_lsetxattr,    SYS_fsetxattr,    463,
                        SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, 466};
  for (const long call : calls) {
    INFO(call);
    for (const Arguments& each : some_arguments(20)) {
      CHECK(held(call, each) == error(EPERM));
    }
    CHECK(plain(call) == allow);
  }
  for (const std::uint64_t request : {0x40086602ull, 0x40046602ull, 0x401c5820ull}) {  // inode flags
    CHECK(held(SYS_ioctl, {0, request | high}) == error(EPERM));
    CHECK(plain(SYS_ioctl, {0, request}) == allow);
  }
  CHECK(held(SYS_openat, {0, 0, O_CREAT | O_WRONLY, 0755}) == allow);
  CHECK(held(SYS_openat, {0, 0, O_CREAT | O_WRONLY, 04755}) == error(EPERM));
}

TEST_CASE("filter: a rename leaves no device behind") {
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (std::uint64_t flags = 0; flags < 16; ++flags) {
      for (const std::uint64_t garbage : std::initializer_list<std::uint64_t>{0ull, high, 0xfff0ull}) {
        const bool whiteout = (flags & 4) != 0;  // RENAME_WHITEOUT
        CHECK(filter(SYS_renameat2, {4, 4, 4, 4, flags | garbage}) == (whiteout ? error(EPERM) : allow));
      }
    }
  }
}

TEST_CASE("filter: only the socket families of the preset, whatever bits are set above") {
  for (const FilterOptions& options : variants()) {
    const Filter filter(options);
    for (std::uint64_t family = 0; family < 64; ++family) {
      const bool inet = family == AF_INET || family == AF_INET6;
      const bool netlink = family == AF_NETLINK;
      const bool wanted = (inet && options.inet) || (family == AF_UNIX && options.unix_sockets) ||
                          (netlink && (options.inet || options.nested));
      CHECK(filter(SYS_socket, {family, SOCK_STREAM, 0}) == (wanted ? allow : error(EAFNOSUPPORT)));
      CHECK(filter(SYS_socket, {family | high, SOCK_STREAM, 0}) == error(EAFNOSUPPORT));
      for (std::uint64_t protocol = 1; netlink && protocol < 32; ++protocol) {
        CHECK(filter(SYS_socket, {family, SOCK_RAW, protocol}) == error(EAFNOSUPPORT));
        CHECK(filter(SYS_socket, {family, SOCK_RAW, protocol << 32}) == error(EAFNOSUPPORT));
      }
    }
    CHECK(filter(SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0}) == allow);
  }
}
