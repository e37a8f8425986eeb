// The boundary of a verification gate: nothing it does reaches the worktree, nothing the run could not see
// shows, and there is nobody and nothing to reach. Every attack has its control: the same script, where it
// must get through.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "boundary/scan.hpp"
#include "boundary/verification.hpp"
#include "core/canonical.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

Compiled compiled_run(const World& world, const Preset& preset, Backend backend, bool git = false) {
  Roots roots = world.roots();
  if (git) {
    roots.git_objects = resolve_root(world.path("tree/.git/objects")).value();
  }
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto found = scan(preset, roots);
  REQUIRE(found.has_value());
  roots.scan = std::make_shared<const Scan>(std::move(found).value());
  auto compiled = compile(preset, roots, World::machine(), {.backend = backend});
  REQUIRE(compiled.has_value());
  const Status admitted = admit(compiled.value());
  INFO((admitted.has_error() ? admitted.error().code + ": " + admitted.error().detail : ""));
  REQUIRE(admitted.has_value());
  return std::move(compiled).value();
}

// Through the bytes of a document, as the finisher gets it.
json::Value kept(const Compiled& run) {
  return json::parse(json::write(verification_policy(run)), json::Duplicates::refuse).value();
}

RunDirectories scratch(const World& world, const Compiled& gate) {
  RunDirectories run;
  if (gate.backend == Backend::landlock) {
    run = world.run();
  }
  if (gate.has_git) {
    run.git = resolve_root(world.path("attempt/git")).value();
  }
  return run;
}

Result<RunOutput> run_script(const World& world, const Compiled& boundary, const RunDirectories& run,
                             const std::string& script, RunLimits limits = {}) {
  Command command = world.shell(boundary, script);
  command.env = inside(boundary, run).environment;
  return boundary::run(boundary, command, limits, {}, run);
}

RunOutput in_gate(const World& world, const json::Value& policy, const std::string& script,
                  bool layered = true, std::uint64_t scratch_bytes = 0) {
  auto gate = verification_boundary(policy, World::machine(), {layered, scratch_bytes});
  INFO((gate.has_error() ? gate.error().code + " " + gate.error().object : ""));
  REQUIRE(gate.has_value());
  auto output = run_script(world, gate.value(), scratch(world, gate.value()), script);
  INFO((output.has_error() ? output.error().code + " " + output.error().object + ": " + output.error().detail
                           : ""));
  REQUIRE(output.has_value());
  return std::move(output).value();
}

RunOutput in_run(const World& world, Compiled run, const std::string& script) {
  REQUIRE(make_placeholders(run, world.attempt()).has_value());
  RunDirectories directories = world.run();
  if (run.has_git) {
    directories.git = resolve_root(world.path("attempt/git")).value();
  }
  auto output = run_script(world, run, directories, script);
  INFO((output.has_error() ? output.error().code + " " + output.error().object + ": " + output.error().detail
                           : ""));
  REQUIRE(output.has_value());
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  return std::move(output).value();
}

// Names, types, modes, sizes, times and bytes.
std::string fingerprint(const std::string& path) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    struct stat info {};
    REQUIRE(lstat(entry.path().c_str(), &info) == 0);
    text += entry.path().string() + " " + std::to_string(info.st_mode) + " " + std::to_string(info.st_ino) +
            " " + std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec) + " " +
            std::to_string(info.st_ctim.tv_sec) + "." + std::to_string(info.st_ctim.tv_nsec) + "\n";
    if (entry.is_regular_file() && !entry.is_symlink()) {
      std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
      const Fd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      text += file && read(file.get(), bytes.data(), bytes.size()) == info.st_size ? sha256_hex(bytes) + "\n"
                                                                                   : "unread\n";
    }
  }
  return sha256_hex(text);
}

const char* const changes =
    "echo changed > src/main.c; echo new > src/new.c; rm -f src/gone.c; mv src/old.c src/older.c; "
    "chmod 777 src/main.c; mkdir src/dir; ln -s x src/link; touch src/kept.c; cat src/main.c src/new.c";

void add_files(const World& world) {
  for (const char* name : {"gone.c", "old.c", "kept.c"}) {
    world.write(world.path(std::string("tree/src/") + name), std::string(name) + "\n");
  }
}

}  // namespace

TEST_CASE("what a gate writes into the worktree it can read back, and the real one stays as it was") {
  const World world;
  add_files(world);
  const Compiled run = compiled_run(world, world.preset(), Backend::native);
  const std::string before = fingerprint(world.worktree());
  const RunOutput output = in_gate(world, kept(run), changes);
  INFO(output.err);
  CHECK(output.out == "changed\nnew\n");
  CHECK(fingerprint(world.worktree()) == before);
  // Control: the run itself changes it by the same script.
  CHECK(in_run(world, run, changes).out == "changed\nnew\n");
  CHECK(fingerprint(world.worktree()) != before);
  CHECK(world.read(world.path("tree/src/main.c")) == "changed\n");
}

TEST_CASE("where nothing can be thrown away a gate only reads") {
  for (const Backend backend : World::backends()) {
    const World world;
    add_files(world);
    const Compiled run = compiled_run(world, world.preset(), backend);
    const std::string before = fingerprint(world.worktree());
    const RunOutput output = in_gate(world, kept(run), std::string(changes) + "; cat src/kept.c", false);
    CHECK(output.out == "int main;\nkept.c\n");
    CHECK(fingerprint(world.worktree()) == before);
    CHECK(in_run(world, run, changes).out == "changed\nnew\n");
    CHECK(fingerprint(world.worktree()) != before);
  }
}

TEST_CASE("a gate finds no network, no credential, no token, nothing of the run and no other process") {
  for (const Backend backend : World::backends()) {
    const World world;
    world.write(world.path("attempt/token"), "the token\n");
    world.write(world.path("attempt/home/login"), "the login\n");
    world.write(world.path("attempt/temp/left"), "left by the run\n");
    const Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(server.get(), 8) == 0);
    REQUIRE(getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const std::string port = std::to_string(ntohs(address.sin_port));
    const std::string self = std::to_string(getpid());
    // bash: the shell has connections of its own. Each line says what got through.
    const std::string script = "(exec 3<>/dev/tcp/127.0.0.1/" + port + ") 2>/dev/null && echo network; cat " +
                               world.path("attempt/token") + "; cat " + world.path("attempt/home/login") +
                               " $HOME/login; cat " + world.path("attempt/temp/left") +
                               " $TMPDIR/left; cat " + world.outside() + "/secret; tr '\\0' '\\n' < /proc/" +
                               self + "/environ | grep '^VERIFICATION_SECRET='; (kill -0 " + self +
                               ") 2>/dev/null && echo process; "
                               "env | grep '^VERIFICATION_SECRET='";
    REQUIRE(setenv("VERIFICATION_SECRET", "the secret", 1) == 0);
    const Compiled run = compiled_run(world, world.preset(), backend);
    auto gate = verification_boundary(kept(run), World::machine());
    REQUIRE(gate.has_value());
    RunDirectories directories = scratch(world, gate.value());
    if (backend == Backend::landlock) {  // new ones, as the finisher makes them
      for (const char* name : {"gate-home", "gate-temp"}) {
        fs::create_directory(world.path(std::string("attempt/") + name));
      }
      directories.home = resolve_root(world.path("attempt/gate-home")).value();
      directories.temp = resolve_root(world.path("attempt/gate-temp")).value();
    }
    Command command = world.shell(gate.value(), "");
    command.executable = resolve_executable(resolve_trusted("/bin/bash").value().path).value();
    command.argv = {"bash", "-c", script};
    command.env = inside(gate.value(), directories).environment;
    auto output = boundary::run(gate.value(), command, {}, {}, directories);
    INFO((output.has_error() ? output.error().code + " " + output.error().object : ""));
    REQUIRE(output.has_value());
    const bool scoped = backend == Backend::native || World::machine().landlock_abi >= 6;
    CHECK(output.value().out == (scoped ? "" : "process\n"));
    // Control: without a boundary every line gets through.
    const std::string outer = "HOME=" + world.path("attempt/home") + " TMPDIR=" + world.path("attempt/temp") +
                              " exec bash -c '" +
                              [&] {
                                std::string quoted;
                                for (const char c : script) {
                                  quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
                                }
                                return quoted;
                              }() +
                              "'";
    std::FILE* pipe = popen(outer.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string seen;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
      seen.append(buffer, got);
    }
    CHECK(pclose(pipe) == 0);
    unsetenv("VERIFICATION_SECRET");
    for (const char* each : {"network\n", "the token\n", "the login\n", "left by the run\n", "secret\n",
                             "process\n", "VERIFICATION_SECRET=the secret\n"}) {
      INFO(each);
      CHECK(seen.find(each) != std::string::npos);
    }
  }
}

TEST_CASE("what the run's policy hides stays hidden, also where the run moved it") {
  const World world;
  fs::create_directories(world.path("tree/config/deep"));
  fs::create_directories(world.path("tree/vault"));
  fs::create_directories(world.path("tree/sub/.git"));
  world.write(world.path("tree/config/deep/.env"), "masked\n");
  world.write(world.path("tree/vault/key"), "denied\n");
  world.write(world.path("tree/sub/.git/HEAD"), "ref: refs/heads/main\n");
  fs::create_directory(world.path("tree/.codex"));
  Preset preset = world.preset();
  preset.dotfile_masking = true;
  preset.denied_paths = {"<workspace>/vault"};
  const Compiled run = compiled_run(world, preset, Backend::native);
  const json::Value policy = kept(run);
  // The run can move what lies above a mask.
  CHECK(in_run(world, run, "mv config moved && echo moved; mkdir config; echo mine > config/.env").out ==
        "moved\n");
  REQUIRE(world.read(world.path("tree/moved/deep/.env")) == "masked\n");
  const std::string before = fingerprint(world.worktree());
  const std::string script =
      "cat moved/deep/.env config/deep/.env vault/key; chmod 644 moved/deep/.env; cat moved/deep/.env; "
      "mv moved again; cat again/deep/.env; echo x > sub/.git/HEAD && echo wrote-git; "
      "echo x > .codex/x && echo wrote-protected; cat config/.env; ls vault; echo x > src/main.c && echo "
      "wrote";
  for (const bool layered : {true, false}) {
    const RunOutput output = in_gate(world, policy, script, layered);
    INFO(output.err);
    CHECK(output.out == (layered ? "mine\nwrote\n" : "mine\n"));
    CHECK(fingerprint(world.worktree()) == before);
  }
  // Control: with the paths of the launch the moved one would show (identities keep it from being built).
  auto stale = verification_design(policy, World::machine());
  REQUIRE(stale.has_value());
  auto refused = run_script(world, stale.value(), {}, script);
  REQUIRE(refused.has_error());
  stale.value().masks.clear();
  auto shown = run_script(world, stale.value(), {}, "cat moved/deep/.env");
  REQUIRE(shown.has_value());
  CHECK(shown.value().out == "masked\n");
}

TEST_CASE("something hidden that cannot be found again is a refusal, something removed is not") {
  const World world;
  fs::create_directories(world.path("tree/config"));
  world.write(world.path("tree/config/.env"), "masked\n");
  Preset preset = world.preset();
  preset.dotfile_masking = true;
  const json::Value policy = kept(compiled_run(world, preset, Backend::native));
  fs::create_directory(world.path("tree/closed"));
  fs::rename(world.path("tree/config"), world.path("tree/closed/config"));
  REQUIRE(chmod(world.path("tree/closed").c_str(), 0) == 0);
  auto gate = verification_boundary(policy, World::machine());
  if (geteuid() == 0) {  // root searches everywhere
    REQUIRE(gate.has_value());
    CHECK(gate.value().masks.at(0).path == world.path("tree/closed/config/.env"));
  } else {
    REQUIRE(gate.has_error());
    CHECK(gate.error().code == "hidden-lost");
  }
  REQUIRE(chmod(world.path("tree/closed").c_str(), 0700) == 0);
  fs::remove_all(world.path("tree/closed"));
  gate = verification_boundary(policy, World::machine());
  REQUIRE(gate.has_value());
  CHECK(gate.value().masks.empty());
}

TEST_CASE("git works in a gate, sees what the run left, and changes neither git directory") {
  for (const Backend backend : World::backends()) {
    const World world;
    fs::remove_all(world.path("tree/.git"));
    const std::string setup =
        "set -e; export GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
        "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; cd " +
        world.worktree() + "; git init -qb main; git add .; git commit -qm one; cp -r .git " +
        world.path("attempt/git");
    REQUIRE(std::system(setup.c_str()) == 0);
    const Compiled run = compiled_run(world, world.preset(), backend, true);
    world.write(world.path("attempt/git/objects/info/alternates"), inside(run, world.run()).objects + "\n");
    world.write(world.path("tree/src/main.c"), "by the run\n");
    const std::string before = fingerprint(world.path("attempt/git")) + fingerprint(world.worktree());
    const RunOutput output =
        in_gate(world, kept(run),
                "git status --porcelain; git diff --stat | tail -1; git log --oneline | wc -l; "
                "git -c user.name=g -c user.email=g@h commit -qam two; git log --oneline | wc -l");
    INFO(output.err);
    CHECK(output.out.find(" M src/main.c\n 1 file changed") == 0);
    const std::string tail = backend == Backend::native && World::machine().overlay ? "1\n2\n" : "1\n1\n";
    CHECK(output.out.substr(output.out.size() - 4) == tail);
    CHECK(fingerprint(world.path("attempt/git")) + fingerprint(world.worktree()) == before);
  }
}

TEST_CASE("what a gate writes is bounded, in its layer and in its temporary directory") {
  const World world;
  const Compiled run = compiled_run(world, world.preset(), Backend::native);
  const RunOutput output = in_gate(world, kept(run),
                                   "for f in src/big /tmp/big $HOME/big; do head -c 9000000 /dev/zero > $f; "
                                   "wc -c < $f; done",
                                   true, 4u << 20);
  CHECK(output.out == "4194304\n4194304\n4194304\n");
  CHECK_FALSE(fs::exists(world.path("tree/src/big")));
}

TEST_CASE("a gate's user sees itself and the worktree as the run did") {
  const World world;
  const Compiled run = compiled_run(world, world.preset(), Backend::native);
  const std::string script = "id -u; id -g; stat -c '%U %a' . src src/main.c; stat -c %U $HOME /tmp";
  CHECK(in_gate(world, kept(run), script).out == in_run(world, run, script).out);
  World foreign;
  foreign.give_to_user();
  const Compiled other = compiled_run(foreign, foreign.preset(), Backend::native);
  CHECK(in_gate(foreign, kept(other), script).out == in_run(foreign, other, script).out);
}

TEST_CASE("a document that was not written by a launch is refused by name") {
  const World world;
  const json::Value policy = kept(compiled_run(world, world.preset(), Backend::native));
  const auto code = [](const json::Value& document) {
    const auto made = verification_design(document, World::machine());
    return made.has_error() ? made.error().code + " " + made.error().object : "";
  };
  CHECK(code(policy) == "");
  CHECK(code(json::Value::object()) == "verification-policy-invalid backend");
  json::Value changed = policy;
  changed.set("worktree", "../x");
  CHECK(code(changed) == "verification-policy-invalid worktree");
  changed = policy;
  changed.set("maxMemory", 7);
  CHECK(code(changed) == "verification-policy-invalid maxMemory");
  changed = policy;
  changed.set("masks", json::Value::array({json::Value::object({{"path", "/x"}, {"device", "1"}})}));
  CHECK(code(changed) == "verification-policy-invalid inode");
}
