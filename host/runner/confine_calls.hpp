#pragma once
// The system calls a confined process may make: what the C library, the loader, and the runner's own loop,
// journal and timers need. A call that is not here is forbidden, so new calls of a newer kernel are too.

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <array>
#include <cstdint>

namespace hitchrail::confine {

inline constexpr auto plain_calls = std::to_array<const char*>({
    // memory
    "brk",
    "mmap",
    "mprotect",
    "munmap",
    "mremap",
    "madvise",
    "mlock",
    "munlock",
    "memfd_create",
    // descriptors that are open, and paths (which Landlock judges)
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "lseek",
    "close",
    "dup",
    "dup2",
    "dup3",
    "fstat",
    "newfstatat",
    "statx",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "flock",
    "getdents64",
    "open",
    "openat",
    "openat2",
    "mkdirat",
    "unlinkat",
    "renameat",
    "renameat2",
    "faccessat",
    "faccessat2",
    "access",
    "stat",
    "lstat",
    "readlink",
    "readlinkat",
    "getcwd",
    "close_range",
    "fadvise64",
    // waiting and messages over sockets that are open
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "eventfd2",
    "pipe2",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "shutdown",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    // time
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "timer_create",
    "timer_settime",
    "timer_gettime",
    "timer_getoverrun",
    "timer_delete",
    "setitimer",
    "getitimer",
    "getrusage",
    "times",
    // threads that exist, signals of the own process, end
    "futex",
    "sched_yield",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "getppid",
    "set_robust_list",
    "rseq",
    "membarrier",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_sigpending",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    // facts
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "uname",
    "sysinfo",
    "getrandom",
    "getrlimit",
    "getcpu",
});

// Added only for Options::threads.
inline constexpr auto thread_calls =
    std::to_array<const char*>({"set_tid_address", "arch_prctl", "sched_getparam", "sched_getscheduler"});
inline constexpr std::uint64_t clone_thread_mask = CLONE_THREAD | CLONE_VM | CLONE_NEWUSER | CLONE_NEWNS |
                                                   CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                                   CLONE_NEWCGROUP;
inline constexpr std::uint64_t clone_thread_flags = CLONE_THREAD | CLONE_VM;

// Not F_SETOWN, F_SETSIG, F_SETLEASE, F_NOTIFY: each lets the kernel send signals to others.
inline constexpr auto fcntl_commands = std::to_array<std::uint64_t>({
    F_DUPFD,
    F_DUPFD_CLOEXEC,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_SETLK,
    F_SETLKW,
    F_OFD_GETLK,
    F_OFD_SETLK,
    F_OFD_SETLKW,
    F_ADD_SEALS,
    F_GET_SEALS,
});
inline constexpr auto prctl_options =
    std::to_array<std::uint64_t>({PR_SET_NAME, PR_GET_NAME, 0x53564d41 /* PR_SET_VMA */});
// What stdio asks of a descriptor it does not know.
inline constexpr auto ioctl_requests = std::to_array<std::uint64_t>({TCGETS, FIONREAD});

}  // namespace hitchrail::confine
