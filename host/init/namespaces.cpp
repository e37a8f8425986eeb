// From the shim's fork to pid 1 of the new namespace.
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "init/init.hpp"

namespace hitchrail::init {
namespace {

void write_proc(const char* path, const char* text, const char* step) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    fail(step, errno, path);
  }
  const ssize_t size = static_cast<ssize_t>(std::strlen(text));
  if (write(fd, text, static_cast<std::size_t>(size)) != size) {
    fail(step, errno, path);
  }
  close(fd);
}

void map_ids(const plan::Header& header) {
  char line[64];
  std::snprintf(line, sizeof line, "%u %u 1\n", header.inside_uid, header.outside_uid);
  write_proc("/proc/self/uid_map", line, "uid-map");
  write_proc("/proc/self/setgroups", "deny", "gid-map");
  std::snprintf(line, sizeof line, "%u %u 1\n", header.inside_gid, header.outside_gid);
  write_proc("/proc/self/gid_map", line, "gid-map");
}

void switch_ids(const Plan& plan) {
  const plan::Header& header = *plan.header;
  if (setgroups(0, nullptr) < 0 ||
      setresgid(header.outside_gid, header.outside_gid, header.outside_gid) < 0 ||
      setresuid(header.outside_uid, header.outside_uid, header.outside_uid) < 0) {
    fail("switch-user", errno);
  }
  // The switch made /proc/self root's; the id maps are written through it.
  if (prctl(PR_SET_DUMPABLE, 1) < 0) {
    fail("switch-user", errno);
  }
}

// Before anything is given up, so that everything this run starts is counted.
void join_control_groups(const Plan& plan) {
  const auto* groups = plan.items<plan::String>(plan.header->cgroups);
  for (std::uint32_t i = 0; i < plan.header->cgroups.count; ++i) {
    char path[4096];
    const char* group = plan.text(groups[i]);
    const int size = std::snprintf(path, sizeof path, "%s/cgroup.procs", group);
    if (size < 0 || static_cast<std::size_t>(size) >= sizeof path) {
      fail("control-group", ENAMETOOLONG, group);
    }
    write_proc(path, "0", "control-group");
  }
}

}  // namespace

Plan read_plan() {
  const int seals = fcntl(wire::init_plan, F_GET_SEALS);
  constexpr int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & wanted) != wanted) {
    fail("plan", seals < 0 ? errno : EPERM, "the plan is not sealed");
  }
  struct stat info {};
  if (fstat(wire::init_plan, &info) < 0) {
    fail("plan", errno);
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < sizeof(plan::Header) || size > plan::max_size) {
    fail("plan", EINVAL, "size");
  }
  void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, wire::init_plan, 0);
  if (bytes == MAP_FAILED) {
    fail("plan", errno);
  }
  if (const char* wrong = plan::check(bytes, size)) {
    fail("plan", EINVAL, wrong);
  }
  Plan plan;
  plan.base = static_cast<const char*>(bytes);
  plan.header = static_cast<const plan::Header*>(bytes);
  return plan;
}

// A launcher may have been started with ignored or blocked signals; nothing of that reaches the harness.
void reset_signals() {
  // By system call: the C library leaves two signals of its own alone, which posix_spawn leaves ignored.
  constexpr int count = 64;
  const unsigned long standard[4] = {};  // SIG_DFL, no flags, no restorer, empty mask
  for (int number = 1; number <= count; ++number) {
    (void)syscall(SYS_rt_sigaction, number, standard, nullptr, sizeof(unsigned long));
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The signal is lost when the parent died before the call, so its end of the socket is looked at afterwards.
// (getppid() says 0 in a new pid namespace whether it lives or not.)
void die_with_parent() {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
    fail("parent", errno);
  }
  if (!socket_alive()) {
    _exit(127);
  }
}

void enter_namespaces(const Plan& plan) {
  const plan::Header& header = *plan.header;
  join_control_groups(plan);
  if (plan.has(plan::switch_user)) {
    clone_sources(plan);
    if (!plan.has(plan::user_namespace)) {
      drop_bounding_set();
    }
    switch_ids(plan);
  } else if (geteuid() == 0) {
    (void)setgroups(0, nullptr);  // without the right to, the groups stay
  }
  if (!plan.has(plan::mount_namespace)) {
    return;
  }
  // Alone first, so that a refusal of user namespaces has its own name.
  if (unshare(CLONE_NEWUSER) < 0) {
    fail("user-namespace", errno);
  }
  map_ids(header);
  int flags = CLONE_NEWNS;
  flags |= plan.has(plan::ipc_namespace) ? CLONE_NEWIPC : 0;
  flags |= plan.has(plan::uts_namespace) ? CLONE_NEWUTS : 0;
  flags |= plan.has(plan::net_namespace) ? CLONE_NEWNET : 0;
  flags |= plan.has(plan::cgroup_namespace) ? CLONE_NEWCGROUP : 0;
  if (unshare(flags) < 0) {
    fail("namespaces", errno);
  }
  if (plan.has(plan::net_namespace)) {
    loopback_up();
    hand_over_listeners(plan);
  }
  if (plan.has(plan::uts_namespace) && sethostname(plan.text(header.hostname), header.hostname.size) < 0) {
    fail("hostname", errno);
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) {
    fail("propagation", errno);
  }
}

void become_init(const Plan& plan) {
  if (!plan.has(plan::pid_namespace)) {
    // Without a pid namespace the death of init would leave the rest alive: it is not to be killed with the
    // shim, but sees its socket close and ends the tree (end_tree).
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, 0) < 0) {
      fail("subreaper", errno);
    }
    return;
  }
  // CLONE_PARENT: pid 1 is the shim's child, so the shim reaps it and its death signal reaches it; this copy
  // is not needed.
  const long child =
      syscall(SYS_clone, CLONE_NEWPID | CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child < 0) {
    fail("pid-namespace", errno);
  }
  if (child > 0) {
    _exit(0);
  }
  die_with_parent();
}

}  // namespace hitchrail::init
