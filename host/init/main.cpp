// hitchrail-init: applies a flat plan, starts one program in it, and is its init. Started by the shim (or by
// the boundary service for a probe) with the descriptors of wire::InitFd; the caller's only voice is the
// plan.
//
// Promises: the order below; every failure is reported by name before anything foreign runs; the leader's raw
// wait status is reported once. Stays outside the Landlock domain and undumpable, so that what it started can
// neither signal it nor read it. Does not do yet: further children on the shim's word.
//
//   signals reset, parent death → [trees cloned, user switched] → namespaces, id maps, loopback, private
//   propagation → pid 1 → new root by descriptor, pivot, root read-only → no_new_privs → bounding set,
//   securebits, capset 0 → undumpable → rules collected → fork: session, cwd, executable compared, streams,
//   close-on-exec, limits, Landlock, seccomp, exec
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "init/init.hpp"
#include "init/kernel.hpp"

namespace {

// A plan may need some hundred descriptors at once; the leader gets back what was there.
rlimit raise_descriptor_limit() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit more = before;
  more.rlim_cur = before.rlim_max < 16384 ? before.rlim_max : 16384;
  if (more.rlim_cur > before.rlim_cur) {
    setrlimit(RLIMIT_NOFILE, &more);
  }
  return before;
}

}  // namespace

int main() {
  using namespace hitchrail::init;
  reset_signals();
  die_with_parent();
  (void)setsid();
  if (syscall(SYS_close_range, 9u, ~0u, 0u) < 0) {
    fail("close", errno);
  }
  const Plan plan = read_plan();
  const rlimit descriptors = raise_descriptor_limit();
  allocate_objects(plan);
  enter_namespaces(plan);
  become_init(plan);
  build_root(plan);
  no_new_privileges();
  drop_bounding_set();
  drop_capabilities();
  if (prctl(PR_SET_DUMPABLE, 0) < 0) {
    fail("undumpable", errno);
  }
  if (plan.has(hitchrail::plan::pid_namespace)) {
    die_with_parent();  // the kernel forgets the death signal when credentials change
  }
  const int ruleset = make_ruleset(plan);
  char** environment = build_environment(plan);
  setrlimit(RLIMIT_NOFILE, &descriptors);
  const int leader = start_leader(plan, environment, ruleset);
  supervise(plan, leader);
}
