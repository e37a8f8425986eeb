// The second look: what changed between compile and activation, and the race for a root's path.
#include "boundary/recheck.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "boundary/scan.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

struct Case {
  World world;
  Preset preset;
  Compiled compiled;
  Executable executable;

  explicit Case(const std::function<void(Case&)>& prepare = {}) {
    preset = world.preset();
    world.write(world.path("program"), "#!/bin/sh\n");
    REQUIRE(chmod(world.path("program").c_str(), 0755) == 0);
    if (prepare) {
      prepare(*this);
    }
    Roots roots = world.roots();
    REQUIRE(add_preset_paths(preset, roots).has_value());
    auto found = scan(preset, roots);
    REQUIRE(found.has_value());
    roots.scan = std::make_shared<const Scan>(std::move(found).value());
    auto result = compile(preset, roots, World::machine(), {.backend = Backend::native});
    REQUIRE(result.has_value());
    const Status admitted = admit(result.value());
    INFO((admitted.has_error() ? admitted.error().code + ": " + admitted.error().detail : ""));
    REQUIRE(admitted.has_value());
    compiled = std::move(result).value();
    executable = resolve_executable(world.path("program")).value();
  }
  // The code of the refusal, "" when there is none.
  [[nodiscard]] std::string again(Recheck depth = Recheck::all) const {
    const Status status = recheck(compiled, executable, world.run(), depth);
    return status.has_error() ? status.error().code : "";
  }
  [[nodiscard]] std::string path(const std::string& name) const { return world.path(name); }
};

// Long enough that the scan's directories do not count as just changed.
void let_time_pass() {
  usleep(60'000);
}

}  // namespace

TEST_CASE("nothing changed, and ordinary work that went on meanwhile, is no reason to refuse") {
  const bool settled = GENERATE(false, true);
  const Case at([&](Case& before) {
    fs::create_directory(before.path("tree/sub"));
    before.world.write(before.path("tree/sub/a"), "a");
    fs::create_hard_link(before.path("tree/sub/a"), before.path("tree/sub/b"));
    if (settled) {
      let_time_pass();
    }
  });
  CHECK(at.again().empty());
  at.world.write(at.path("tree/src/main.c"), "changed\n");
  at.world.write(at.path("tree/src/new.c"), "new\n");
  fs::create_directories(at.path("tree/build/out"));
  at.world.write(at.path("tree/build/out/x.o"), "x");
  fs::remove(at.path("tree/sub/b"));
  fs::create_hard_link(at.path("tree/sub/a"), at.path("tree/build/a"));
  CHECK(at.again().empty());
}

TEST_CASE("a link that leads out is seen, however it came about") {
  const bool settled = GENERATE(false, true);
  const Case at([&](Case& before) {
    fs::create_directory(before.path("tree/sub"));
    before.world.write(before.path("tree/sub/a"), "a");
    fs::create_hard_link(before.path("tree/sub/a"), before.path("tree/sub/b"));
    if (settled) {
      let_time_pass();
    }
  });
  CHECK(at.again().empty());
  SECTION("a new name in the worktree for a file outside") {
    fs::create_hard_link(at.path("outside/secret"), at.path("tree/src/x"));
  }
  SECTION("a new name outside for a file of the worktree: no directory of it changes") {
    fs::create_hard_link(at.path("tree/src/main.c"), at.path("outside/x"));
  }
  SECTION("a name inside exchanged for one outside: the count stays") {
    fs::create_hard_link(at.path("tree/sub/a"), at.path("outside/x"));
    fs::remove(at.path("tree/sub/b"));
  }
  SECTION("a name moved out") {
    fs::rename(at.path("tree/sub/b"), at.path("outside/b"));
  }
  SECTION("a folder moved in") {
    fs::create_directory(at.path("outside/folder"));
    fs::create_hard_link(at.path("outside/secret"), at.path("outside/folder/x"));
    fs::rename(at.path("outside/folder"), at.path("tree/src/folder"));
  }
  SECTION("a folder exchanged for another of the same name") {
    fs::create_directory(at.path("outside/sub"));
    fs::create_hard_link(at.path("outside/secret"), at.path("outside/sub/a"));
    fs::rename(at.path("tree/sub"), at.path("outside/old"));
    fs::rename(at.path("outside/sub"), at.path("tree/sub"));
  }
  CHECK(at.again() == "hard-link-outside");
  CHECK(at.again(Recheck::names).empty());  // the cheap look is not for this
}

TEST_CASE("a file that became set-id, or came as one, is refused") {
  const bool settled = GENERATE(false, true);
  const Case at([&](Case&) {
    if (settled) {
      let_time_pass();
    }
  });
  SECTION("by chmod") {
    REQUIRE(chmod(at.path("tree/src/main.c").c_str(), 04755) == 0);
  }
  SECTION("moved in") {
    at.world.write(at.path("outside/tool"), "x");
    REQUIRE(chmod(at.path("outside/tool").c_str(), 02755) == 0);
    fs::rename(at.path("outside/tool"), at.path("tree/src/tool"));
  }
  CHECK(at.again() == "set-id-inside");
}

TEST_CASE("a listener that came meanwhile is refused") {
  const Case at;
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = at.path("tree/src/s");
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(at.again() == "listening-socket");
}

TEST_CASE("a nested git directory that came, went or was replaced is refused") {
  const Case at([](Case& before) { fs::create_directories(before.path("tree/lib/.git")); });
  CHECK(at.again().empty());
  SECTION("came") {
    fs::create_directories(at.path("tree/src/.git"));
    CHECK(at.again() == "nested-git-appeared");
  }
  SECTION("went") {
    fs::remove(at.path("tree/lib/.git"));
    CHECK(at.again() == "nested-git-changed");
    CHECK(at.again(Recheck::names) == "nested-git-changed");
  }
  SECTION("replaced") {
    fs::rename(at.path("tree/lib/.git"), at.path("outside/git"));
    fs::create_directory(at.path("tree/lib/.git"));
    CHECK(at.again(Recheck::names) == "nested-git-changed");
  }
  SECTION("a link now") {
    fs::rename(at.path("tree/lib/.git"), at.path("outside/git"));
    fs::create_directory_symlink(at.path("outside/git"), at.path("tree/lib/.git"));
    CHECK(at.again(Recheck::names) == "nested-git-changed");
  }
}

TEST_CASE("a dotfile to be masked that came, went or was replaced is refused") {
  const Case at([](Case& before) {
    before.preset.dotfile_masking = true;
    before.world.write(before.path("tree/.env"), "x");
    fs::create_symlink("nowhere", before.path("tree/.link"));
  });
  CHECK(at.again().empty());
  SECTION("came") {
    at.world.write(at.path("tree/src/.npmrc"), "token");
    CHECK(at.again() == "dotfile-appeared");
  }
  SECTION("went") {
    fs::remove(at.path("tree/.env"));
    CHECK(at.again(Recheck::names) == "dotfile-changed");
  }
  SECTION("replaced, as editors do") {
    at.world.write(at.path("tree/x"), "y");
    fs::rename(at.path("tree/x"), at.path("tree/.env"));
    CHECK(at.again(Recheck::names) == "dotfile-changed");
    CHECK(at.again(Recheck::all) == "dotfile-changed");
  }
}

TEST_CASE("protected names, denied paths, roots, run directories and the program are compared") {
  const Case at([](Case& before) {
    fs::create_directory(before.path("tree/.codex"));
    fs::create_directory(before.path("tree/private"));
    before.preset.denied_paths = {"<workspace>/private"};
  });
  for (const Recheck depth : {Recheck::names, Recheck::all}) {
    CHECK(at.again(depth).empty());
  }
  SECTION("a protected name appeared") {
    fs::create_directory(at.path("tree/.claude"));
    CHECK(at.again(Recheck::names) == "protected-name-appeared");
  }
  SECTION("a protected name became a link") {
    fs::rename(at.path("tree/.codex"), at.path("outside/codex"));
    fs::create_directory_symlink(at.path("outside/codex"), at.path("tree/.codex"));
    CHECK(at.again(Recheck::names) == "protected-name-symlink");
  }
  SECTION("an absent protected name became a link") {
    fs::create_directory_symlink(at.path("outside"), at.path("tree/.claude"));
    CHECK(at.again(Recheck::names) == "protected-name-symlink");
  }
  SECTION("a protected name is another one, or gone") {
    fs::remove(at.path("tree/.codex"));
    CHECK(at.again(Recheck::names) == "protected-name-changed");
    at.world.write(at.path("tree/.codex"), "");
    CHECK(at.again(Recheck::names) == "protected-name-changed");
  }
  SECTION("a denied folder is another one: the mask would lie on the wrong thing") {
    fs::rename(at.path("tree/private"), at.path("tree/moved"));
    fs::create_directory(at.path("tree/private"));
    CHECK(at.again(Recheck::names) == "denied-changed");
  }
  SECTION("the worktree is another directory, or a link to itself") {
    fs::rename(at.path("tree"), at.path("real"));
    CHECK(at.again(Recheck::names) == "root-changed");
    fs::create_directory_symlink(at.path("real"), at.path("tree"));
    CHECK(at.again(Recheck::names) == "root-changed");
  }
  SECTION("a directory of the run is reached through a link") {
    const RunDirectories run = at.world.run();
    fs::rename(at.path("attempt"), at.path("elsewhere"));
    fs::create_directory_symlink(at.path("elsewhere"), at.path("attempt"));
    const Status status = recheck(at.compiled, at.executable, run, Recheck::names);
    REQUIRE(status.has_error());
    CHECK(status.error().code == "run-directory-changed");
  }
  SECTION("the program was written to, with size and time restored") {
    struct stat info {};
    REQUIRE(stat(at.path("program").c_str(), &info) == 0);
    let_time_pass();
    at.world.write(at.path("program"), "#!/bin/Sh\n");
    const timespec times[2] = {info.st_atim, info.st_mtim};
    REQUIRE(utimensat(AT_FDCWD, at.path("program").c_str(), times, 0) == 0);
    CHECK(at.again(Recheck::names) == "executable-changed");
  }
}

TEST_CASE("a file system mounted or unmounted below a root since the scan is refused") {
  const World world;
  fs::create_directory(world.path("tree/data"));
  const pid_t child = fork();
  if (child == 0) {
    if (unshare((geteuid() == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      _exit(98);
    }
    const auto found = scan(world.preset(), world.roots());
    if (found.has_error() || recheck_mounts(found.value()).has_error()) {
      _exit(97);
    }
    if (mount("tmpfs", world.path("tree/data").c_str(), "tmpfs", 0, nullptr) != 0) {
      _exit(96);
    }
    const Status after = recheck_scan(found.value());
    _exit(after.has_error() && after.error().code == "mounts-changed" ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) ? WEXITSTATUS(status) : -1) == 0);
}

TEST_CASE("a write root swapped with a link all the time: each launch runs on the original or is refused") {
  const char* wanted = std::getenv("HITCHRAIL_SWAP_LAUNCHES");
  const int launches = wanted == nullptr ? 200 : std::atoi(wanted);
  REQUIRE(launches > 0);
  const World world;
  fs::create_directory(world.path("root"));
  world.write(world.path("root/original"), "");
  world.write(world.path("outside/trap"), "");
  Preset preset;
  preset.id = "race";
  preset.required_capabilities = {"filesystem.read", "filesystem.write"};
  preset.digest = "sha256:race";
  auto compiled = probe_boundary({}, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  const Root root = resolve_root(world.path("root")).value();
  compiled.value().grants.push_back({"write-root", root, root.path, true, true});
  Command command;
  command.executable = resolve_executable(resolve_trusted("/bin/sh").value().path).value();
  command.argv = {"sh", "-c",
                  "cd " + root.path + " && echo x > written && test -e original && test ! -e trap"};

  std::atomic<bool> stop{false};
  std::atomic<long> swaps{0};
  std::thread swapper([&] {
    const std::string at = world.path("root");
    const std::string aside = world.path("aside");
    while (!stop) {
      swaps += rename(at.c_str(), aside.c_str()) == 0 && symlink(world.outside().c_str(), at.c_str()) == 0;
      (void)unlink(at.c_str());
      (void)rename(aside.c_str(), at.c_str());
      std::this_thread::yield();
    }
  });
  int ran = 0;
  int refused = 0;
  int wrong = 0;
  std::map<std::string, int> codes;
  for (int i = 0; i < launches; ++i) {
    const auto output = run(compiled.value(), command, {});
    if (output.has_error()) {
      ++refused;
      ++codes[output.error().code];
    } else {
      output.value().ok() ? ++ran : ++wrong;
    }
  }
  stop = true;
  swapper.join();
  for (const auto& [code, count] : codes) {
    WARN(code << ": " << count);
  }
  WARN("ran " << ran << ", refused " << refused << ", swaps " << swaps);
  CHECK(wrong == 0);
  CHECK(ran + refused == launches);
  CHECK(swaps > launches / 10);
  CHECK(refused > 0);  // the race was really run
  CHECK(ran > 0);
  CHECK_FALSE(fs::exists(world.path("outside/written")));
  CHECK((codes.empty() || (codes.size() == 1 && codes.begin()->first == "root-changed")));
}
