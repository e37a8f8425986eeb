// Machines that refuse one thing: each refusal has its own code and remedy, and none is answered by a weaker
// boundary.
#include <linux/sched.h>
#include <net/if.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>

#include "boundary/internal.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;

namespace {

// What `look` says on a machine where these calls fail (a filter that hitchrail-init inherits).
std::string on_machine_without(const std::function<void(scmp_filter_ctx)>& refuse,
                               const std::function<std::string()>& look) {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    refuse(filter);
    if (seccomp_load(filter) != 0) {
      _exit(1);
    }
    const std::string text = look();
    (void)!write(fds[1], text.data(), text.size());
    _exit(0);
  }
  close(fds[1]);
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fds[0], buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  return text;
}

std::string findings() {
  const Machine machine = probe_machine();
  std::string text;
  for (const Finding& finding : machine.missing) {
    text += finding.code + (finding.remedy.empty() || finding.detail.empty() ? "!" : "") + " ";
  }
  return text + (machine.user_namespaces && machine.mount_api && machine.pid_namespace ? "native" : "none");
}

std::string chosen() {
  Preset preset;
  preset.id = "test";
  preset.required_capabilities = {"filesystem.read", "filesystem.metadata"};
  preset.digest = "x";
  auto compiled = compile(preset, {}, probe_machine());
  return compiled.value().blockers.empty() ? "started" : compiled.value().blockers.front().error.code;
}

// An older kernel's Landlock is one finding more, in its place.
std::string plus_landlock(const std::string& found, const std::string& works) {
  const int abi = World::machine().landlock_abi;
  return found + (abi == 0 ? "landlock-missing " : abi < 3 ? "landlock-abi-old " : "") + works;
}

void refuse_call(scmp_filter_ctx filter, int call, int error = EPERM) {
  seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), call, 0);
}

}  // namespace

TEST_CASE("this machine can do everything the tests need") {
  CHECK(findings() == plus_landlock("", "native"));
  const Machine& machine = World::machine();
  CHECK(machine.seccomp);
  CHECK(machine.net_namespace);
  CHECK(machine.devices.size() == 5);
}

TEST_CASE("each refusal of the machine has its own code and remedy") {
  const auto with = [](const std::function<void(scmp_filter_ctx)>& refuse) {
    return on_machine_without(refuse, findings);
  };
  CHECK(with([](scmp_filter_ctx f) {
          seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
        }) == plus_landlock("userns-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) {
          seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWPID, CLONE_NEWPID));
        }) == plus_landlock("pid-namespace-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount)); }) ==
        plus_landlock("propagation-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount_setattr)); }) ==
        plus_landlock("remount-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(move_mount)); }) ==
        plus_landlock("mount-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(open_tree), ENOSYS); }) ==
        plus_landlock("kernel-old ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount_setattr), ENOSYS); }) ==
        plus_landlock("kernel-old ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(fsopen)); }) ==
        plus_landlock("mount-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(pivot_root)); }) ==
        plus_landlock("pivot-denied ", "none"));
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, 444, ENOSYS); }) == "landlock-missing native");
  CHECK(with([](scmp_filter_ctx f) {
          seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, SIOCSIFFLAGS));
        }) == plus_landlock("loopback-denied ", "native"));
}

TEST_CASE("a launch that needs what the machine refuses is blocked with that code") {
  const auto with = [](const std::function<void(scmp_filter_ctx)>& refuse) {
    return on_machine_without(refuse, chosen);
  };
  CHECK(with([](scmp_filter_ctx) {}) == "started");
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount)); }) == "propagation-denied");
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount_setattr)); }) == "remount-denied");
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(pivot_root)); }) == "pivot-denied");
}

TEST_CASE(
    "PB-14: remount, loopback, propagation and user namespaces refused: four codes, no launch, no way "
    "around") {
  const auto refusal = [] {
    Preset preset;
    preset.id = "test";
    preset.required_capabilities = {"filesystem.metadata", "network.none"};
    preset.network = Network::none;
    preset.digest = "x";
    const Compiled compiled = compile(preset, {}, probe_machine()).value();
    std::string text = admit(compiled).has_error() ? "" : "admitted ";
    for (const Blocker& blocker : compiled.blockers) {
      text += blocker.error.code + (blocker.error.remedy.empty() ? "!" : "") + " ";
      for (const char* way_out : {"permissive", "sandbox off", "without a sandbox", "disable the"}) {
        text += blocker.error.remedy.find(way_out) != std::string::npos ? "OFFERED " : "";
      }
    }
    return text;
  };
  const auto with = [&](const std::function<void(scmp_filter_ctx)>& refuse) {
    const std::string text = on_machine_without(refuse, refusal);
    INFO(text);
    CHECK(text.find("admitted") == std::string::npos);
    CHECK(text.find("OFFERED") == std::string::npos);
    CHECK(text.find('!') == std::string::npos);
    return text.substr(0, text.find(' '));
  };
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount_setattr)); }) == "remount-denied");
  CHECK(with([](scmp_filter_ctx f) {
          seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, SIOCSIFFLAGS));
        }) == "loopback-denied");
  CHECK(with([](scmp_filter_ctx f) { refuse_call(f, SCMP_SYS(mount)); }) == "propagation-denied");
  CHECK(with([](scmp_filter_ctx f) {
          seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
        }) == "userns-denied");
}

TEST_CASE("what switched user namespaces off is named, with the setting that mends it") {
  const Error namespaces{ErrorClass::environment, "boundary-failed", "",
                         "user-namespace",        "No space left",   ""};
  const Error mapping{
      ErrorClass::environment, "boundary-failed", "", "uid-map", "Operation not permitted", ""};
  const auto code = [](const Error& error, const Surroundings& around, bool root = false) {
    const auto found = explain_surroundings(error, around, root);
    return found ? found->code + (found->remedy.empty() ? "!" : "") : "-";
  };
  CHECK(code(namespaces, {.max_user_namespaces = 0}) == "userns-limit");
  CHECK(code(namespaces, {.max_user_namespaces = 100}) == "-");
  CHECK(code(namespaces, {.unprivileged_clone = 0}) == "userns-unprivileged");
  CHECK(code(namespaces, {.unprivileged_clone = 0}, true) == "-");
  CHECK(code(mapping, {.apparmor_restricts = 1}) == "apparmor-userns");
  CHECK(code(mapping, {.apparmor_restricts = 1}, true) == "-");
  CHECK(code(mapping, {.apparmor_restricts = 0}) == "-");
  CHECK(code(mapping, {.proc = false}) == "proc-missing");
}

TEST_CASE("a missing hitchrail-init is named") {
  const auto elsewhere = [] {
    setenv("HITCHRAIL_LIBEXEC", "/nonexistent", 1);
    return init_path().error().code + " " + findings();
  };
  CHECK(on_machine_without([](scmp_filter_ctx) {}, elsewhere) ==
        "init-missing " + plus_landlock("init-missing ", "none"));
}
