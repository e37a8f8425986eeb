#pragma once
// What a process that will hold adapter code gives up before it loads it. Links as hitchrail_confine (core,
// libseccomp).
//
// Promises, after confine() returned a Report: every descriptor not in keep_fds is closed; no core dump, not
// dumpable, no new privileges; Landlock (whatever ABI the kernel has) handles every right it knows and allows
// only the grants; seccomp is an allow-list: no exec, fork, thread, socket, connect, ptrace, open_by_handle,
// io_uring, process_vm, mount family, keyctl, bpf, perf, namespaces, no signal to anybody else, no i386 or
// x32 entry. Irreversible, for all threads. Refuses (nothing is promised then, the caller must exit):
// landlock-unavailable, seccomp-unavailable, and any step the kernel did not take. What an older Landlock ABI
// cannot hold stands in Report::missing; seccomp covers most of it.
//
// A sealed memfd needs no grant: it lies on a file system that is never mounted, which Landlock does not
// judge, so the loader reaches it as /proc/self/fd/N. libstdc++, libm, libgcc_s and libc are in the process
// already, so nothing else is opened. Open descriptors keep working whatever Landlock says. stat(2) of a path
// stays possible: Landlock does not judge it. Not yet: a second filter after the load that takes open and
// mmap(PROT_EXEC) away.

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::confine {

// Beneath this descriptor (a directory) or of this one file: read, or read, write, create, remove, rename,
// truncate.
struct Grant {
  int fd = -1;
  bool write = false;
};

// Forbidden calls seen by a filter with Options::trap. The handler runs in the offending thread and answers
// EPERM.
struct TrapLog {
  volatile sig_atomic_t count = 0;
  volatile sig_atomic_t first_syscall = -1;
};

struct Options {
  std::vector<int> keep_fds;  // all others are closed, 0 to 2 included
  std::vector<Grant> grants;  // need not be kept open
  bool threads = false;       // true also allows new threads (never new processes)
  int landlock_abi_cap = 0;   // pretend an older kernel; 0 = what this one has
  // The checker's mode: a forbidden call is counted here instead of only being answered EPERM. Must outlive
  // the process.
  TrapLog* trap = nullptr;
};

struct Report {
  int landlock_abi = 0;
  std::vector<std::string> holds;    // "landlock: file system", "seccomp: allow-list of 92 calls", ...
  std::vector<std::string> missing;  // "landlock: signals (ABI 6)", ...
};

Result<Report> confine(const Options& options);

// The kernel's Landlock ABI, 0 without Landlock. For doctor and preview.
int landlock_abi();
// "openat" for 257; "call 9999" when unknown.
std::string syscall_name(long number);

}  // namespace hitchrail::confine
