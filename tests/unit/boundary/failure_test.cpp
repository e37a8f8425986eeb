// A boundary that cannot be built: each step of init that fails is named, nothing foreign has run, and
// nothing is left on disk, mounted or running. And the codes of overlay, idmap and control groups.
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

using Refuse = std::function<void(scmp_filter_ctx)>;

std::vector<std::string> listing(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string mounts() {
  const Fd file(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  return read_all(file.get(), 16u << 20).value();
}

// What `body` returns in a child of its own, where it may change itself.
std::string in_child(const std::function<std::string()>& body) {
  int fds[2];
  REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body();
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

void with_filter(const Refuse& refuse) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  refuse(filter);
  if (seccomp_load(filter) != 0) {
    _exit(1);
  }
}

Refuse call(int number, int error = EPERM) {
  return [=](scmp_filter_ctx filter) {
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)), number, 0);
  };
}
Refuse call_with(int number, unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return [=](scmp_filter_ctx filter) {
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 1,
                     SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
  };
}

std::string told(const Result<RunOutput>& output) {
  return output.has_value() ? "ran" : output.error().code + " " + output.error().object;
}

// Runs a program that would leave a file.
std::string tried(const World& world, const Compiled& compiled) {
  return told(run(compiled, world.shell(compiled, "echo x > src/ran"), {.wall_ms = 20'000}, {}, world.run()));
}

Compiled compiled_with(const World& world, bool overlay) {
  Roots roots = world.roots();
  roots.worktree->overlay = roots.worktree->overlay && overlay;
  auto compiled = compile(world.preset(), roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  return compiled.value();
}

void check_nothing_left(const World& world, const std::string& mounted_before) {
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK(listing(world.worktree()) == std::vector<std::string>{".git", "src"});
  CHECK(listing(world.path("tree/src")) == std::vector<std::string>{"main.c"});
  CHECK(listing(world.path("attempt")) == std::vector<std::string>{"home", "temp"});
  CHECK(fs::is_empty(world.path("attempt/home")));
  CHECK(mounts() == mounted_before);
  CHECK(waitpid(-1, nullptr, WNOHANG) < 0);  // no child is left either
}

// A plan of `steps` one-byte files in a fresh root.
std::string plan_of_files(int steps) {
  PlanWriter plan;
  plan.header.flags |= plan::user_namespace | plan::mount_namespace | plan::pid_namespace;
  plan.header.outside_uid = geteuid();
  plan.header.outside_gid = getegid();
  plan.header.inside_uid = plan.header.inside_gid = 1000;
  for (int i = 0; i < steps; ++i) {
    plan.file("/" + std::to_string(i), "x");
  }
  plan.header.cwd = plan.header.executable = plan.place("/");
  plan.header.flags |= plan::end_with_leader;
  return plan.bytes();
}

}  // namespace

TEST_CASE("each failing step of init is named, nothing has run and nothing is left") {
  struct Row {
    const char* step;
    Refuse refuse;
    const char* code = "boundary-failed";
  };
  const bool landlock = World::machine().landlock_abi > 0;
  const char* const none = "";
  const Row rows[] = {
      {"close", call(SCMP_SYS(close_range), ENOSYS)},
      {"user-namespace", call_with(SCMP_SYS(unshare), 0, CLONE_NEWUSER, CLONE_NEWUSER)},
      {"namespaces", call_with(SCMP_SYS(unshare), 0, CLONE_NEWNS, CLONE_NEWNS)},
      {"hostname", call(SCMP_SYS(sethostname))},
      {"propagation", call(SCMP_SYS(mount))},
      {"pid-namespace", call_with(SCMP_SYS(clone), 0, CLONE_NEWPID, CLONE_NEWPID)},
      {"tmpfs", call(SCMP_SYS(fsopen), ENOSYS)},
      {"tmpfs", call(SCMP_SYS(fsmount))},
      {"directory", call(SCMP_SYS(mkdirat), ENOSPC)},
      {"symlink", call(SCMP_SYS(symlinkat), ENOSPC)},
      {"source", call(SCMP_SYS(openat2), ENOSYS)},
      {"clone", call(SCMP_SYS(open_tree), ENOSYS)},
      {"mount-attributes", call(SCMP_SYS(mount_setattr))},
      {"root", call(SCMP_SYS(move_mount))},
      {"pivot", call(SCMP_SYS(pivot_root))},
      {"pivot", call(SCMP_SYS(fchdir))},
      {"old-root", call(SCMP_SYS(umount2))},
      {"pivot", call(SCMP_SYS(chroot))},
      {"no-new-privileges", call_with(SCMP_SYS(prctl), 0, ~0ull, PR_SET_NO_NEW_PRIVS)},
      {"capabilities", call(SCMP_SYS(capset))},
      {"undumpable",
       [](scmp_filter_ctx filter) {
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 2,
                          SCMP_CMP(0, SCMP_CMP_EQ, PR_SET_DUMPABLE), SCMP_CMP(1, SCMP_CMP_EQ, 0));
       }},
      {landlock ? "landlock" : none, call(SCMP_SYS(landlock_create_ruleset))},
      {landlock ? "landlock" : none, call(SCMP_SYS(landlock_add_rule))},
      {landlock ? "landlock" : none, call(SCMP_SYS(landlock_restrict_self))},
      {"fork", call_with(SCMP_SYS(clone), 0, CLONE_PIDFD, CLONE_PIDFD)},
      {"session", call(SCMP_SYS(setsid))},
      {"seccomp", call(SCMP_SYS(seccomp))},
      {"exec", call(SCMP_SYS(execveat)), "exec-failed"},
  };
  for (const Row& row : rows) {
    if (*row.step == '\0') {
      continue;  // no Landlock on this kernel: no such step
    }
    const World world;
    const std::string mounted = mounts();
    const Compiled compiled = compiled_with(world, false);
    const std::string seen = in_child([&] {
      with_filter(row.refuse);
      return tried(world, compiled);
    });
    INFO(row.step << ": " << seen);
    CHECK(seen.rfind(row.code, 0) == 0);
    if (std::string(row.code) == "boundary-failed") {
      CHECK(seen == "boundary-failed " + std::string(row.step));
    }
    check_nothing_left(world, mounted);
  }
}

TEST_CASE("a source that is another one or gone by the time of the start is refused") {
  const World world;
  const std::string mounted = mounts();
  const std::string granted = world.path("outside");
  Compiled compiled = compiled_with(world, false);
  compiled.grants.push_back({"read", resolve_root(granted).value(), granted, false, true});
  compiled.grants.back().source.identity.ino += 1;
  CHECK(tried(world, compiled) == "root-changed " + granted);
  compiled.grants.back().source.identity.ino -= 1;
  fs::rename(granted, world.path("moved"));
  CHECK(tried(world, compiled) == "root-changed " + granted);
  fs::create_directory_symlink(world.path("moved"), granted);  // the same inode, by a link
  CHECK(tried(world, compiled) == "root-changed " + granted);
  compiled.grants.pop_back();
  Command command = world.shell(compiled, "echo x > src/ran");
  command.cwd = world.path("tree/none");
  CHECK(told(run(compiled, command, {}, {}, world.run())) == "boundary-failed cwd");
  check_nothing_left(world, mounted);
}

TEST_CASE("a skeleton that does not fit into its tmpfs ends with the file that did not") {
  const std::string mounted = mounts();
  CHECK(told(run_plan(plan_of_files(500), {.wall_ms = 20'000})) == "ran");
  auto output = run_plan(plan_of_files(2000), {.wall_ms = 20'000});
  REQUIRE(output.has_error());
  CHECK(output.error().object == "file");
  CHECK(output.error().detail.find("No space left") == 0);
  CHECK(mounts() == mounted);
}

TEST_CASE("too few descriptors end the start by name") {
  const World world;
  const std::string mounted = mounts();
  const Compiled compiled = compiled_with(world, false);
  const std::string seen = in_child([&] {
    const rlimit few{52, 52};
    setrlimit(RLIMIT_NOFILE, &few);
    auto output = run(compiled, world.shell(compiled, "echo x > src/ran"), {}, {}, world.run());
    return output.has_value() ? "ran" : output.error().code + " " + output.error().detail;
  });
  INFO(seen);
  CHECK(seen.find("boundary-failed Too many open files") == 0);
  check_nothing_left(world, mounted);
}

TEST_CASE("a control group that takes no second process ends the start by name") {
  const std::string parent = World::machine().control_groups.processes;
  if (parent.empty()) {
    WARN("this user cannot make a control group for processes here: this case is not tested");
    return;
  }
  const World world;
  const std::string mounted = mounts();
  Compiled compiled = compiled_with(world, false);
  const std::string group = parent + "/hitchrail-test-" + std::to_string(getpid());
  REQUIRE(mkdir(group.c_str(), 0755) == 0);
  {
    const Fd limit(open((group + "/pids.max").c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(write_all(limit.get(), "1").has_value());
  }
  compiled.joined_groups = {group};
  const std::string seen = tried(world, compiled);
  CHECK(rmdir(group.c_str()) == 0);  // nobody is in it
  // Of a run of root the child that carries an id map would be the second.
  CHECK(seen == (compiled.idmapped ? "idmap-failed idmap" : "boundary-failed pid-namespace"));
  check_nothing_left(world, mounted);
}

TEST_CASE("a plan beyond its bounds is refused before init is started") {
  const std::string longest = plan_of_files(8191);
  CHECK(plan::check(longest.data(), longest.size()) == nullptr);
  const std::string too_long = plan_of_files(8192);  // and the root
  CHECK(plan::check(too_long.data(), too_long.size()) == std::string("steps"));
  auto output = run_plan(too_long, {});  // init itself refuses what a caller did not
  CHECK(told(output) == "boundary-failed plan");

  const World world;
  Compiled compiled = compiled_with(world, false);
  const Root source = resolve_root(world.path("outside")).value();
  for (int i = 0; i < 4200; ++i) {  // a name and a mount each
    compiled.grants.push_back({"read", source, "/many/" + std::to_string(i), false, true});
  }
  auto plan = flat_plan(compiled, world.run(), world.shell(compiled, "true"));
  REQUIRE(plan.has_error());
  CHECK(plan.error().code == "plan-invalid");
  CHECK(plan.error().object == "steps");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("an undumpable host finds the same overlay as any other process") {
  const std::string seen = in_child([] {
    prctl(PR_SET_DUMPABLE, 0);
    return overlay_works() ? "overlay" : "none";
  });
  CHECK(seen == (World::machine().overlay ? "overlay" : "none"));
}

TEST_CASE("an overlay that cannot be made is overlay-failed, not a run without it") {
  const World world;
  if (!world.roots().worktree->overlay) {
    WARN("no overlay on this machine or file system: this case is not tested");
    return;
  }
  const std::string mounted = mounts();
  const Compiled compiled = compiled_with(world, true);
  REQUIRE(compiled.overlay);
  const std::string seen = in_child([&] {
    with_filter(call_with(SCMP_SYS(fsconfig), 1, ~0ull, FSCONFIG_SET_FLAG));  // only an overlay has a flag
    return tried(world, compiled);
  });
  CHECK(seen == "overlay-failed overlay");
  check_nothing_left(world, mounted);
}

TEST_CASE("an overlay's folder in which something is mounted is overlay-left, and goes when that is gone") {
  const World world;
  if (!world.roots().worktree->overlay) {
    WARN("no overlay on this machine or file system: this case is not tested");
    return;
  }
  const std::string mounted = mounts();
  const Compiled compiled = compiled_with(world, true);
  const std::string seen = in_child([&] {
    const unsigned uid = geteuid();
    if (unshare(CLONE_NEWUSER) < 0) {
      _exit(2);
    }
    {
      const Fd map(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
      const std::string line = "0 " + std::to_string(uid) + " 1\n";
      if (write_all(map.get(), line).has_error()) {
        _exit(3);
      }
    }
    if (unshare(CLONE_NEWNS) < 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
        mount("tmpfs", world.path("attempt/overlay/0/absent").c_str(), "tmpfs", 0, "") < 0) {
      _exit(4);
    }
    const Fd attempt(open(world.path("attempt").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const Status removed = remove_placeholders(attempt.get());
    return removed.has_error() ? removed.error().code + " " + removed.error().remedy : "removed";
  });
  CHECK(seen == "overlay-left Run: hitchrail runs recover");
  check_nothing_left(world, mounted);
}

TEST_CASE("a tree that cannot be idmapped is idmap-failed, not a run with the owner's uid") {
  const World world;
  if (!world.roots().idmapped) {
    CHECK(geteuid() != 0);  // an ordinary user's run is that user's: there is no such step
    return;
  }
  const std::string mounted = mounts();
  const Compiled compiled = compiled_with(world, false);
  const std::string seen = in_child([&] {
    with_filter(call_with(SCMP_SYS(clone), 0, CLONE_NEWUSER, CLONE_NEWUSER));
    return tried(world, compiled);
  });
  CHECK(seen == "idmap-failed idmap");
  check_nothing_left(world, mounted);
}

TEST_CASE("a control group that cannot be made or joined is control-group-failed") {
  const World world;
  const std::string mounted = mounts();
  auto compiled = compile(world.preset(), world.roots(), World::machine(),
                          {.backend = Backend::native, .max_memory = 64u << 20});
  REQUIRE(compiled.has_value());
  compiled.value().control_groups.memory = "/proc";  // where nobody makes a directory
  const Status made = make_placeholders(compiled.value(), world.attempt());
  REQUIRE(made.has_error());
  CHECK(made.error().code == "control-group-failed");
  CHECK_FALSE(fs::exists(world.path("attempt/cgroups")));
  check_nothing_left(world, mounted);

  Compiled joining = compiled_with(world, false);
  joining.joined_groups = {world.path("attempt/hitchrail-no-such-group")};
  CHECK(tried(world, joining) == "control-group-failed control-group");
  check_nothing_left(world, mounted);
}

TEST_CASE("a control group that cannot be removed is control-group-left, and goes when it can be") {
  const World world;
  const std::string mounted = mounts();
  const std::string group = world.path("outside/hitchrail-group");
  const std::string foreign = world.path("outside/foreign");
  fs::create_directories(group + "/busy");
  fs::create_directory(foreign);
  json::Value record = json::Value::array();
  record.push(hex_encode(group));
  record.push(hex_encode(foreign));
  REQUIRE(write_file_atomic(world.attempt(), "cgroups", json::write(record) + "\n").has_value());
  const Status left = remove_placeholders(world.attempt());
  REQUIRE(left.has_error());
  CHECK(left.error().code == "control-group-left");
  CHECK(left.error().object == group);
  CHECK(fs::exists(world.path("attempt/cgroups")));
  fs::remove(group + "/busy");
  record = json::Value::array();
  record.push(hex_encode(group));
  REQUIRE(write_file_atomic(world.attempt(), "cgroups", json::write(record) + "\n").has_value());
  check_nothing_left(world, mounted);
  CHECK_FALSE(fs::exists(group));
  CHECK(fs::exists(foreign));
}
