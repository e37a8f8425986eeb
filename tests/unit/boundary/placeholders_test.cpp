// Protected names that do not exist: held during the run, gone afterwards, whatever died in between.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::becomes;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> listing(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<std::string> before{".git", "src"};

// The same world on a machine or file system without the overlay.
class PlaceholderWorld : public World {
 public:
  PlaceholderWorld() { setenv("HITCHRAIL_PROTECTED_NAMES", "placeholders", 1); }
  ~PlaceholderWorld() { unsetenv("HITCHRAIL_PROTECTED_NAMES"); }
  PlaceholderWorld(const PlaceholderWorld&) = delete;
  PlaceholderWorld& operator=(const PlaceholderWorld&) = delete;
};

}  // namespace

TEST_CASE("the listing of the worktree before a run equals the listing after it") {
  const PlaceholderWorld world;
  CHECK(world.run_shell(Backend::native, "ls -A").out == ".agents\n.claude\n.codex\n.git\n.hitchrail\nsrc\n");
  CHECK(listing(world.worktree()) == before);
  CHECK_FALSE(fs::exists(world.path("attempt/placeholders")));
  if (World::has_landlock()) {
    CHECK(world.run_shell(Backend::landlock, "ls -A").out == ".git\nsrc\n");
  }
}

TEST_CASE(
    "after SIGKILL of the launcher in mid-run the tree is gone and the record removes the placeholders") {
  const PlaceholderWorld world;
  const std::string token = "33" + std::to_string(getpid());
  const pid_t launcher = fork();
  if (launcher == 0) {
    const Compiled compiled = world.compiled(Backend::native);
    (void)run(compiled, world.shell(compiled, "setsid sleep " + token + " & sleep " + token),
              {.wall_ms = 60'000}, {}, world.run());
    _exit(0);
  }
  for (int i = 0; i < 500 && hitchrail::test::processes_with(token) < 3; ++i) {
    usleep(10'000);
  }
  CHECK(hitchrail::test::processes_with(token) >= 3);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  CHECK(becomes(token, 0));
  CHECK(listing(world.worktree()).size() == 6);
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK(listing(world.worktree()) == before);
  CHECK(remove_placeholders(world.attempt()).has_value());  // again: nothing to do
}

TEST_CASE("a crash at any point of making them leaves nothing that the record does not find") {
  // Every prefix of the steps: killed by a watcher as soon as the n-th name appears.
  for (int round = 0; round < 30; ++round) {
    const PlaceholderWorld world;
    auto compiled = compile(world.preset(), world.roots(), World::machine(), {.backend = Backend::native});
    REQUIRE(compiled.has_value());
    const pid_t maker = fork();
    if (maker == 0) {
      (void)make_placeholders(compiled.value(), world.attempt());
      _exit(0);
    }
    usleep(static_cast<useconds_t>(round * 60));
    kill(maker, SIGKILL);
    waitpid(maker, nullptr, 0);
    std::vector<std::string> kept;
    REQUIRE(remove_placeholders(world.attempt(), &kept).has_value());
    CHECK(kept.empty());
    CHECK(listing(world.worktree()) == before);
  }
}

TEST_CASE("only the very, empty directory is removed") {
  const PlaceholderWorld world;
  const Compiled compiled = world.compiled(Backend::native);
  world.write(world.path("tree/.codex/config.toml"), "mine\n");  // the operator, during the run
  fs::remove(world.path("tree/.claude"));
  fs::create_directory(world.path("tree/.keep"));  // so that the inode is not given out again
  fs::create_directory(world.path("tree/.claude"));
  std::vector<std::string> kept;
  REQUIRE(remove_placeholders(world.attempt(), &kept).has_value());
  CHECK(kept == std::vector<std::string>{world.path("tree/.codex")});
  CHECK(world.read(world.path("tree/.codex/config.toml")) == "mine\n");
  CHECK_FALSE(fs::exists(world.path("tree/.agents")));
}

TEST_CASE("a worktree that the run closed to its owner is opened up for the removal and closed again") {
  const mode_t mode = GENERATE(0555u, 0500u, 0444u, 0000u);
  const PlaceholderWorld world;
  const RunOutput output = [&] {
    const Compiled compiled = world.compiled(Backend::native);
    char text[32];
    std::snprintf(text, sizeof text, "chmod %o .", static_cast<unsigned>(mode));
    auto done = run(compiled, world.shell(compiled, text), {}, {}, world.run());
    REQUIRE(done.has_value());
    return std::move(done).value();
  }();
  CHECK(output.value == 0);
  std::vector<std::string> kept;
  CHECK(remove_placeholders(world.attempt(), &kept).has_value());
  CHECK(kept.empty());
  CHECK_FALSE(fs::exists(world.path("attempt/placeholders")));
  struct stat info {};
  REQUIRE(stat(world.worktree().c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == mode);
  REQUIRE(chmod(world.worktree().c_str(), 0755) == 0);
  CHECK(listing(world.worktree()) == before);
}

TEST_CASE("a worktree that was moved and replaced keeps its record, which works when it is back") {
  const PlaceholderWorld world;
  const Compiled compiled = world.compiled(Backend::native);
  fs::rename(world.worktree(), world.path("moved"));
  SECTION("by another directory") {
    fs::create_directory(world.worktree());
  }
  SECTION("by a link to it") {
    fs::create_directory_symlink("moved", world.worktree());
  }
  for (int i = 0; i < 2; ++i) {
    bool away = false;
    const Status left = remove_placeholders(world.attempt(), nullptr, &away);
    REQUIRE(left.has_error());
    CHECK(left.error().code == "placeholders-left");
    CHECK(away);
    CHECK(listing(world.path("moved")).size() == 6);
  }
  fs::remove(world.worktree());
  fs::rename(world.path("moved"), world.worktree());
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK(listing(world.worktree()) == before);
  CHECK_FALSE(fs::exists(world.path("attempt/placeholders")));
}

TEST_CASE("a name that appears in between is an error, and what was made is taken back") {
  const PlaceholderWorld world;
  auto compiled = compile(world.preset(), world.roots(), World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  fs::create_directory_symlink("src", world.path("tree/.claude"));
  const Status made = make_placeholders(compiled.value(), world.attempt());
  REQUIRE(made.has_error());
  CHECK(made.error().code == "protected-name-appeared");
  CHECK(listing(world.worktree()) == std::vector<std::string>{".claude", ".git", "src"});
}

TEST_CASE("a plan without its placeholders is not written") {
  const PlaceholderWorld world;
  auto compiled = compile(world.preset(), world.roots(), World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  CHECK(flat_plan(compiled.value(), world.run(), world.shell(compiled.value(), "true")).error().code ==
        "placeholder-missing");
}

TEST_CASE("a damaged record is an error and removes nothing") {
  const PlaceholderWorld world;
  const Compiled compiled = world.compiled(Backend::native);
  const std::string record = world.read(world.path("attempt/placeholders"));
  world.write(world.path("attempt/placeholders"), record.substr(0, record.size() / 2));
  CHECK(remove_placeholders(world.attempt()).has_error());
  CHECK(listing(world.worktree()).size() == 6);
  world.write(world.path("attempt/placeholders"), record);
  CHECK(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("when the record cannot be written nothing is made") {
  const PlaceholderWorld world;
  auto compiled = compile(world.preset(), world.roots(), World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};  // every write fails, as on a full disk
    setrlimit(RLIMIT_FSIZE, &none);
    _exit(make_placeholders(compiled.value(), world.attempt()).has_error() ? 7 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(listing(world.worktree()) == before);
}
