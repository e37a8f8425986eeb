// Programs in a boundary, as the caller of run() sees them.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "core/ids.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::becomes;
using hitchrail::test::processes_with;
using hitchrail::test::World;
namespace fs = std::filesystem;
using End = RunOutput::End;

namespace {

std::string value_of(const std::string& status, const std::string& key) {
  const std::size_t at = status.find(key + ":");
  if (at == std::string::npos) {
    return "absent";
  }
  const std::size_t start = status.find_first_not_of(" \t", at + key.size() + 1);
  return status.substr(start, status.find('\n', start) - start);
}

}  // namespace

TEST_CASE("exit codes, signals and both streams come back as they are") {
  for (const Backend backend : World::backends()) {
    const World world;
    RunOutput output = world.run_shell(backend, "echo out; echo err >&2; exit 7");
    CHECK(output.end == End::exited);
    CHECK(output.value == 7);
    CHECK(output.out == "out\n");
    CHECK(output.err == "err\n");
    output = world.run_shell(backend, "kill -SEGV $$");
    CHECK(output.end == End::signaled);
    CHECK(output.value == SIGSEGV);
  }
}

TEST_CASE("the worktree and the run's directories are written on the host, and nothing else is there") {
  const World world;
  const RunOutput output =
      world.run_shell(Backend::native,
                      "echo a > src/made; echo b > $HOME/b; echo c > $TMPDIR/c; mkdir $XDG_CACHE_HOME; echo "
                      "d > $XDG_CACHE_HOME/d; ls -A /; ls /etc /home /var /sys /run");
  CHECK(world.read(world.path("tree/src/made")) == "a\n");
  CHECK(world.read(world.path("attempt/home/b")) == "b\n");
  CHECK(world.read(world.path("attempt/temp/c")) == "c\n");
  CHECK(world.read(world.path("attempt/temp/cache/d")) == "d\n");  // goes with the temporary directory
  for (const char* absent : {"/home", "/var", "/sys", "/run"}) {
    INFO(absent);
    CHECK(output.err.find(std::string("'") + absent + "'") != std::string::npos);
  }
  CHECK(output.out.find("shadow") == std::string::npos);
  CHECK(fs::status(world.path("tree/src/made")).permissions() != fs::perms::none);
  struct stat info {};
  REQUIRE(stat(world.path("tree/src/made").c_str(), &info) == 0);
  CHECK(info.st_uid == geteuid());
}

TEST_CASE("no capability, no new privileges, a filter, default signals, no terminal, its own session") {
  // A launcher with the worst habits.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  for (const Backend backend : World::backends()) {
    const World world;
    const RunOutput output = world.run_shell(
        backend, "cat /proc/self/status; echo; cut -d' ' -f6,7 /proc/$$/stat; echo pid $$; exit 3");
    CHECK(output.value == 3);
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
      CHECK(value_of(output.out, set) == "0000000000000000");
    }
    if (backend == Backend::native || geteuid() == 0) {
      CHECK(value_of(output.out, "CapBnd") == "0000000000000000");
    }
    CHECK(value_of(output.out, "NoNewPrivs") == "1");
    CHECK(value_of(output.out, "Seccomp") == "2");
    CHECK(value_of(output.out, "SigBlk") == "0000000000000000");
    CHECK(value_of(output.out, "SigIgn") == "0000000000000000");
    const std::string pid = output.out.substr(output.out.find("pid ") + 4);
    CHECK(output.out.find(pid.substr(0, pid.find('\n')) + " 0\n") !=
          std::string::npos);  // session leader, no terminal
  }
  sigprocmask(SIG_SETMASK, &old, nullptr);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST_CASE("the environment is exactly what the command says") {
  for (const Backend backend : World::backends()) {
    const World world;
    const Compiled compiled = world.compiled(backend);
    Command command = world.shell(compiled, "");
    command.executable = resolve_executable(resolve_trusted("/usr/bin/env").value().path).value();
    command.argv = {"env"};
    command.env = {{"ONE", "1"}, {"TWO", "a=b c"}};
    auto output = run(compiled, command, {}, {}, world.run());
    REQUIRE(output.has_value());
    CHECK(output.value().out == "ONE=1\nTWO=a=b c\n");
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}

TEST_CASE("no descriptor above the three streams is open inside, and init's command line names nothing") {
  const int leaked = open("/", O_RDONLY);  // not close-on-exec
  const World world;
  const RunOutput output =
      world.run_shell(Backend::native, "ls /proc/self/fd; tr '\\0' ' ' < /proc/1/cmdline");
  CHECK(output.out == "0\n1\n2\n3\nhitchrail-init ");  // 3 is ls's own
  if (World::has_landlock()) {
    CHECK(world.run_shell(Backend::landlock, "ls /proc/self/fd").out == "0\n1\n2\n3\n");
  }
  close(leaked);
}

TEST_CASE("input arrives whole, and a program that does not read it is no error") {
  const World world;
  const Compiled compiled = world.compiled(Backend::native);
  const std::string input(300'000, 'x');
  auto output = run(compiled, world.shell(compiled, "wc -c"), {}, input, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "300000\n");
  output = run(compiled, world.shell(compiled, "exec 0<&-; echo done"), {}, input, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "done\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("too much output ends the program, too much on stderr is cut") {
  for (const Backend backend : World::backends()) {
    const World world;
    RunOutput output =
        world.run_shell(backend, "yes", {.max_stdout = 1000, .max_stderr = 100, .wall_ms = 20'000});
    CHECK(output.end == End::output_limit);
    CHECK(output.out_truncated);
    CHECK(output.out.size() == 1000);
    output = world.run_shell(backend, "yes | head -c 300000 >&2; echo ok",
                             {.max_stdout = 1000, .max_stderr = 100, .wall_ms = 20'000});
    CHECK(output.end == End::exited);
    CHECK(output.out == "ok\n");
    CHECK(output.err.size() == 100);
    CHECK(output.err_truncated);
  }
}

TEST_CASE("when time is up everything is gone: also what called setsid, forked twice, or ignores signals") {
  for (const Backend backend : World::backends()) {
    const World world;
    const std::string token = "31" + std::to_string(getpid()) + (backend == Backend::native ? "1" : "2");
    const std::string script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep " + token +
                               "; :' &) ; (setsid setsid sleep " + token + " &); sleep " + token + "; :";
    const std::int64_t start = monotonic_nanos();
    const RunOutput output =
        world.run_shell(backend, script, {.max_stdout = 1000, .max_stderr = 1000, .wall_ms = 700});
    CHECK(output.end == End::timed_out);
    CHECK(monotonic_nanos() - start < 5'000'000'000);
    CHECK(processes_with(token) == 0);
  }
}

TEST_CASE("when the program ends what it left behind ends too") {
  for (const Backend backend : World::backends()) {
    const World world;
    const std::string token = "32" + std::to_string(getpid()) + (backend == Backend::native ? "1" : "2");
    const RunOutput output =
        world.run_shell(backend, "setsid sleep " + token + " >/dev/null 2>&1 & sleep 0.1; echo left");
    CHECK(output.out == "left\n");
    CHECK(processes_with(token) == 0);
  }
}

TEST_CASE("a denied directory and a denied file inside the worktree cannot be read, moved or removed") {
  const World world;
  fs::create_directory(world.path("tree/private"));
  world.write(world.path("tree/private/key"), "key\n");
  world.write(world.path("tree/.env"), "TOKEN=1\n");
  Preset preset = world.preset();
  preset.denied_paths = {"<workspace>/private", "<workspace>/.env"};
  Roots roots = world.roots();
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto compiled = compile(preset, roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  auto output = run(
      compiled.value(),
      world.shell(compiled.value(),
                  "cat private/key .env; ls private; mv private p; rm -f .env; echo > .env; cat src/main.c"),
      {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "int main;\n");
  CHECK(world.read(world.path("tree/private/key")) == "key\n");
  CHECK(world.read(world.path("tree/.env")) == "TOKEN=1\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a program of the worktree runs, and a script is started by its name") {
  const World world;
  world.write(world.path("tree/tool"), "#!/bin/sh\necho tool $0 $1\n");
  fs::permissions(world.path("tree/tool"), fs::perms::owner_all);
  const Compiled compiled = world.compiled(Backend::native);
  Command command = world.shell(compiled, "");
  command.executable = resolve_executable(world.path("tree/tool")).value();
  CHECK(command.executable.script);
  command.argv = {"tool", "arg"};
  auto output = run(compiled, command, {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "tool " + world.path("tree/tool") + " arg\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a program that changed since it was looked at is not started") {
  for (const Backend backend : World::backends()) {
    const World world;
    fs::copy_file(resolve_trusted("/bin/true").value().path, world.path("tree/src/prog"));
    const Compiled compiled = world.compiled(backend);
    Command command = world.shell(compiled, "");
    command.executable = resolve_executable(world.path("tree/src/prog")).value();
    command.argv = {"prog"};
    auto output = run(compiled, command, {}, {}, world.run());
    REQUIRE(output.has_value());
    CHECK(output.value().ok());
    world.write(world.path("tree/src/prog"), "other bytes");
    output = run(compiled, command, {}, {}, world.run());
    REQUIRE(output.has_error());
    CHECK(output.error().code == "executable-changed");
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}

TEST_CASE(
    "a root that became another directory or a link since it was judged is refused, and nothing is made "
    "there") {
  for (const Backend backend : World::backends()) {
    const World world;
    const Compiled compiled = world.compiled(backend);
    fs::rename(world.path("tree"), world.path("tree-old"));
    fs::create_directory(world.path("tree"));
    auto output = run(compiled, world.shell(compiled, "true"), {}, {}, world.run());
    REQUIRE(output.has_error());
    CHECK(output.error().code == "root-changed");
    fs::remove(world.path("tree"));
    fs::create_directory_symlink(world.path("outside"), world.path("tree"));
    output = run(compiled, world.shell(compiled, "true"), {}, {}, world.run());
    REQUIRE(output.has_error());
    CHECK(output.error().code == "root-changed");
    CHECK(std::distance(fs::directory_iterator(world.outside()), fs::directory_iterator()) == 1);
  }
}

TEST_CASE("a link planted on the way to a mount point never leads outside") {
  const World world;
  fs::create_directories(world.path("tree/deep/x"));
  fs::create_directory(world.path("outside/x"));
  Preset preset = world.preset();
  preset.denied_paths = {"<workspace>/deep/x"};
  Roots roots = world.roots();
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto compiled = compile(preset, roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  // Between the judgement and the launch.
  fs::rename(world.path("tree/deep"), world.path("tree/away"));
  fs::create_directory_symlink(world.path("outside"), world.path("tree/deep"));
  auto output = run(compiled.value(), world.shell(compiled.value(), "true"), {}, {}, world.run());
  REQUIRE(output.has_error());
  CHECK(fs::is_empty(world.path("outside/x")));
  CHECK(fs::status(world.path("outside/x")).permissions() != fs::perms::none);
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  // And when it was there before, the path is refused at the look.
  CHECK(add_preset_paths(preset, roots).error().code == "root-alias");
}

TEST_CASE("a probe has an empty home that is gone afterwards, no network and no socket but socketpair") {
  const World world;
  for (const Backend backend : World::backends()) {
    auto compiled = probe_boundary({}, World::machine(), {.backend = backend});
    REQUIRE(compiled.has_value());
    REQUIRE(admit(compiled.value()).has_value());
    Command command = world.shell(compiled.value(), "");
    command.env = inside(compiled.value(), {}).environment;
    command.argv = {"sh", "-c",
                    "ls -A \"$HOME\" 2>/dev/null | head -1; echo home $HOME; cat /proc/net/dev 2>/dev/null | "
                    "grep -c eth; cat " +
                        world.path("outside/secret")};
    auto output = run(compiled.value(), command, {});
    REQUIRE(output.has_value());
    CHECK(output.value().out.find("secret") == std::string::npos);
    CHECK(output.value().value != 0);
  }
}

TEST_CASE("the login file alone is bound into the home, read-only, and nothing else of where it lies") {
  const World world;
  fs::create_directory(world.path("attempt/home/.codex"));
  world.write(world.path("attempt/home/.codex/auth.json"), "");
  Roots roots = world.roots();
  roots.credentials = {{resolve_root(world.path("outside/secret"), false).value(), ".codex/auth.json"}};
  auto compiled = compile(world.preset(), roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  auto output = run(compiled.value(),
                    world.shell(compiled.value(),
                                "cat $HOME/.codex/auth.json; echo replaced > $HOME/.codex/auth.json; ls " +
                                    world.outside()),
                    {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "secret\n");
  CHECK(output.value().value != 0);
  CHECK(world.read(world.path("outside/secret")) == "secret\n");
  CHECK(world.read(world.path("attempt/home/.codex/auth.json")).empty());
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a run that root starts is the worktree owner's, also below folders that only root may enter") {
  const World world;
  world.give_to_user();  // as root; else it is this user's already
  const std::uint32_t user = geteuid() == 0 ? 65534 : geteuid();
  const Compiled compiled = world.compiled(Backend::native);
  CHECK(compiled.uid == user);
  CHECK(compiled.switch_user == (geteuid() == 0));
  auto output =
      run(compiled,
          world.shell(compiled, "id -u; id -G; echo x > src/made; echo y > $HOME/y; cat /proc/self/status"),
          {}, {}, world.run());
  INFO((output.has_error() ? output.error().object + ": " + output.error().detail : ""));
  REQUIRE(output.has_value());
  CHECK(output.value().out.rfind(std::to_string(user) + "\n", 0) == 0);
  CHECK(value_of(output.value().out, "CapBnd") == "0000000000000000");
  CHECK(value_of(output.value().out, "Uid").rfind(std::to_string(user) + "\t" + std::to_string(user), 0) ==
        0);
  struct stat info {};
  REQUIRE(stat(world.path("tree/src/made").c_str(), &info) == 0);
  CHECK(info.st_uid == user);
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a limit on processes is a hard stop, for a run of root too") {
  const World world;
  auto compiled = compile(world.preset(), world.roots(), World::machine(),
                          {.backend = Backend::native, .max_processes = 20});
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  auto output =
      run(compiled.value(),
          world.shell(compiled.value(), "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; echo all"),
          {.wall_ms = 4000}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out.find("all") == std::string::npos);
  CHECK(output.value().err.find("fork") != std::string::npos);
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("with no descriptors left the error says so, and nothing is started") {
  const World world;
  const Compiled compiled = world.compiled(Backend::native);
  const Command command = world.shell(compiled, "touch src/started");
  const RunDirectories directories = world.run();
  std::vector<Fd> hold;
  for (;;) {
    Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) {
      break;
    }
    hold.push_back(std::move(fd));
  }
  auto output = run(compiled, command, {}, {}, directories);
  hold.clear();
  REQUIRE(output.has_error());
  CHECK(output.error().code == "emfile");
  CHECK_FALSE(fs::exists(world.path("tree/src/started")));
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("the native backend is the same on kernels with an older Landlock, or none") {
  for (int abi = 0; abi <= World::machine().landlock_abi; ++abi) {
    const World world;
    Machine machine = World::machine();
    machine.landlock_abi = abi;
    auto compiled = compile(world.preset(), world.roots(), machine, {.backend = Backend::native});
    REQUIRE(compiled.has_value());
    REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
    auto output = run(compiled.value(),
                      world.shell(compiled.value(),
                                  "echo x > src/made; mkdir new; mv src/made new/made; cat new/made; cat " +
                                      world.outside() + "/secret; echo x > .git/HEAD; echo x > /usr/x"),
                      {}, {}, world.run());
    INFO(abi);
    REQUIRE(output.has_value());
    CHECK(output.value().out == "x\n");
    CHECK(world.read(world.path("tree/.git/HEAD")) == "ref: refs/heads/main\n");
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}

TEST_CASE("a memory hog ends and everything else goes on; no control group stays") {
  for (const Backend backend : World::backends()) {
    const World world;
    auto compiled = compile(world.preset(), world.roots(), World::machine(),
                            {.backend = backend, .max_memory = 64u << 20});
    REQUIRE(compiled.has_value());
    const std::string by = compiled.value().evidence.get("limits").get("memory").as_string();
    CHECK(by == (World::machine().control_groups.memory.empty() ? "each-process" : "control-group"));
    REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
    const std::vector<std::string> groups = compiled.value().joined_groups;
    CHECK(groups.empty() == (by == "each-process"));
    // tail keeps a line that never ends in memory.
    auto output = run(
        compiled.value(),
        world.shell(compiled.value(),
                    "head -c 400000000 /dev/zero | tail -n 1 | wc -c > src/size; echo left; cat src/size"),
        {.wall_ms = 60'000}, {}, world.run());
    INFO((output.has_error() ? output.error().object + ": " + output.error().detail : ""));
    REQUIRE(output.has_value());
    CHECK(output.value().out.find("left\n") == 0);
    CHECK(output.value().out.find("400000000") == std::string::npos);
    REQUIRE(remove_placeholders(world.attempt()).has_value());
    for (const std::string& group : groups) {
      CHECK_FALSE(fs::exists(group));
    }
    CHECK_FALSE(fs::exists(world.path("attempt/cgroups")));
  }
}

TEST_CASE("below an advisory boundary a program makes namespaces and mounts of its own, and is not uid 0") {
  const World world;
  Preset preset = world.preset();
  preset.enforcement = Enforcement::advisory;
  auto compiled = compile(preset, world.roots(), World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  if (compiled.value().run_uid == 0) {  // root, where nothing can be idmapped
    CHECK(admit(compiled.value()).error().code == "nested-as-root");
    return;
  }
  REQUIRE(admit(compiled.value()).has_value());
  CHECK(compiled.value().nested_allowed);
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  auto output = run(compiled.value(),
                    world.shell(compiled.value(),
                                "unshare -Urm sh -c 'mount -t tmpfs none /tmp && echo mounted; umount .git'; "
                                "ls /proc/sys/kernel/overflowuid; [ $(id -u) != 0 ] && echo ordinary; "
                                "[ -c /dev/tty ] && ! (: < /dev/tty) && echo no terminal; mkdir .codex"),
                    {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "mounted\n/proc/sys/kernel/overflowuid\nordinary\nno terminal\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE(
    "below an advisory boundary no file gets a capability, from a user namespace of the run's own either") {
  const World world;
  Preset preset = world.preset();
  preset.enforcement = Enforcement::advisory;
  auto compiled = compile(preset, world.roots(), World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  if (compiled.value().run_uid == 0) {  // root, where nothing can be idmapped
    CHECK(admit(compiled.value()).error().code == "nested-as-root");
    return;
  }
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  // Each form of the call, with cap_setuid for everybody; then what the kernel answered and who asked.
  const std::string program = R"(
import ctypes, os
name, value = "security.capability", bytes.fromhex("0100000280000000000000000000000000000000")
path = "src/program"
open(path, "w").close()
file = os.open(path, os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
class Arguments(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("size", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
def newest():
    buffer = ctypes.create_string_buffer(value, len(value))
    given = Arguments(ctypes.addressof(buffer), len(value), 0)
    if libc.syscall(463, -100, path.encode(), 0, name.encode(), ctypes.byref(given), 16) != 0:
        raise OSError(ctypes.get_errno(), "setxattrat")
for attack in (lambda: os.setxattr(path, name, value), lambda: os.setxattr(path, name, value, follow_symlinks=False),
               lambda: os.setxattr(file, name, value), newest):
    try:
        attack()
        print("through")
    except OSError as error:
        print(error.errno)
print("uid", os.getuid())
)";
  world.write(world.path("tree/attack.py"), program);
  auto output = run(compiled.value(), world.shell(compiled.value(), "unshare -Ur python3 attack.py"), {}, {},
                    world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().err.empty());
  CHECK(output.value().out == "95\n95\n95\n95\nuid 0\n");
  CHECK(getxattr(world.path("tree/src/program").c_str(), "security.capability", nullptr, 0) < 0);
  CHECK(errno == ENODATA);
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}
