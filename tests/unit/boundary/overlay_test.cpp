// Protected names that do not exist, held by an overlay; and runs of root that are nobody's.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::becomes;
using hitchrail::test::processes_with;
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

bool has_overlay(const World& world) {
  const bool has = world.roots().worktree->overlay;
  if (!has) {
    WARN("no overlay on this machine or file system: these cases are not tested");
  }
  return has;
}

}  // namespace

TEST_CASE("under an overlay the protected names exist inside and never on disk") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const Compiled compiled = world.compiled(Backend::native);
  CHECK(compiled.overlay);
  CHECK(listing(world.worktree()) == before);
  auto output = run(compiled,
                    world.shell(compiled,
                                "ls -A; mkdir .codex; echo x > .codex/config.toml; rmdir .codex; "
                                "mkdir new; mv new .claude; echo y > made; ls -A .codex"),
                    {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == ".agents\n.claude\n.codex\n.git\n.hitchrail\nsrc\n");
  CHECK(listing(world.worktree()) == std::vector<std::string>{".git", "made", "new", "src"});
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK(listing(world.worktree()) == std::vector<std::string>{".git", "made", "new", "src"});
  CHECK(listing(world.path("attempt")) == std::vector<std::string>{"home", "temp"});
}

TEST_CASE("under an overlay inode numbers are the host's, and all on one device") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const RunOutput output = world.run_shell(
      Backend::native, "stat -c %i . src src/main.c; stat -c %d . src src/main.c | sort -u | wc -l");
  std::string expected;
  for (const char* name : {"tree", "tree/src", "tree/src/main.c"}) {
    struct stat info {};
    REQUIRE(stat(world.path(name).c_str(), &info) == 0);
    expected += std::to_string(info.st_ino) + "\n";
  }
  CHECK(output.out == expected + "1\n");
}

TEST_CASE("under an overlay nothing stays when launcher and run are killed in mid-run") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const std::string token = "34" + std::to_string(getpid());
  const pid_t launcher = fork();
  if (launcher == 0) {
    const Compiled compiled = world.compiled(Backend::native);
    (void)run(compiled,
              world.shell(compiled, "mkdir new new/deep; setsid sleep " + token + " & sleep " + token),
              {.wall_ms = 60'000}, {}, world.run());
    _exit(0);
  }
  for (int i = 0; i < 500 && processes_with(token) < 3; ++i) {
    usleep(10'000);
  }
  CHECK(processes_with(token) >= 3);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  CHECK(becomes(token, 0));
  CHECK(listing(world.worktree()) == std::vector<std::string>{".git", "new", "src"});
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK(listing(world.path("attempt")) == std::vector<std::string>{"home", "temp"});
  CHECK(remove_placeholders(world.attempt()).has_value());  // again: nothing to do
}

TEST_CASE("marks of an overlay go from the worktree's top level, whoever made the directories") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const Compiled compiled = world.compiled(Backend::native);
  fs::create_directory(world.path("tree/made"));
  for (const char* name : {"tree", "tree/made"}) {
    REQUIRE(setxattr(world.path(name).c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
    REQUIRE(setxattr(world.path(name).c_str(), "user.mine", "1", 1, 0) == 0);
  }
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  for (const char* name : {"tree", "tree/made"}) {
    CHECK(getxattr(world.path(name).c_str(), "user.overlay.opaque", nullptr, 0) < 0);
    CHECK(getxattr(world.path(name).c_str(), "user.mine", nullptr, 0) == 1);
  }
}

TEST_CASE("marks go from wherever the run moved a directory, and the operator's own on others stay") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const auto mark = [&](const char* name) {
    REQUIRE(setxattr(world.path(name).c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
  };
  const auto marked = [&](const char* name) {
    return getxattr(world.path(name).c_str(), "user.overlay.opaque", nullptr, 0) >= 0;
  };
  fs::create_directories(world.path("tree/old/deep"));
  fs::create_directories(world.path("tree/a"));
  mark("tree/old");
  mark("tree/old/deep");
  usleep(100'000);
  const Compiled compiled = world.compiled(Backend::native);
  fs::create_directories(world.path("tree/b"));  // as older kernels do it: marked at the top, then moved
  mark("tree/b");
  fs::rename(world.path("tree/b"), world.path("tree/a/d"));
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  CHECK_FALSE(marked("tree/a/d"));
  CHECK(marked("tree/old"));
  CHECK(marked("tree/old/deep"));
}

TEST_CASE("a run leaves no mark of the overlay on a kernel since 5.14") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const Compiled compiled = world.compiled(Backend::native);
  auto output =
      run(compiled, world.shell(compiled, "mkdir a a/b c; mv c src/; touch f"), {}, {}, world.run());
  REQUIRE(output.has_value());
  char names[512];
  for (const char* name : {"tree", "tree/a", "tree/a/b", "tree/src", "tree/src/c", "tree/f"}) {
    INFO(name);
    const ssize_t size = listxattr(world.path(name).c_str(), names, sizeof names);
    CHECK(std::string(names, size > 0 ? static_cast<std::size_t>(size) : 0).find("overlay") ==
          std::string::npos);
  }
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a crash at any point of making the overlay's directories leaves only what is removed") {
  for (int round = 0; round < 30; ++round) {
    const World world;
    if (!has_overlay(world)) {
      return;
    }
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
    REQUIRE(remove_placeholders(world.attempt()).has_value());
    CHECK(listing(world.worktree()) == before);
    CHECK(listing(world.path("attempt")) == std::vector<std::string>{"home", "temp"});
  }
}

TEST_CASE("a protected name that exists is read-only under an overlay too, and what is denied is masked") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  fs::create_directory(world.path("tree/.codex"));
  world.write(world.path("tree/.codex/config.toml"), "mine\n");
  world.write(world.path("tree/secret"), "s\n");
  Preset preset = world.preset();
  preset.denied_paths = {"<workspace>/secret"};
  Roots roots = world.roots();
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto compiled = compile(preset, roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  REQUIRE(compiled.value().overlay);
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  auto output = run(compiled.value(),
                    world.shell(compiled.value(),
                                "cat .codex/config.toml secret; echo y > .codex/config.toml; mv .codex c; "
                                "mkdir c; mv -T c .codex; rm -f secret; echo end"),
                    {}, {}, world.run());
  REQUIRE(output.has_value());
  CHECK(output.value().out == "mine\nend\n");
  CHECK(world.read(world.path("tree/.codex/config.toml")) == "mine\n");
  CHECK(world.read(world.path("tree/secret")) == "s\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE(
    "under an overlay the host's changes in place are seen, and new names that were not asked for before") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const Compiled compiled = world.compiled(Backend::native);
  const pid_t host = fork();
  if (host == 0) {
    while (access(world.path("tree/ready").c_str(), F_OK) != 0) {
      usleep(1000);
    }
    world.write(world.path("tree/src/added"), "added\n");
    world.write(world.path("tree/src/main.c"), "changed in place\n");
    _exit(0);
  }
  auto output = run(compiled,
                    world.shell(compiled,
                                "cat src/main.c src/asked; touch ready; while ! grep -q place src/main.c; "
                                "do sleep 0.01; done; cat src/added"),
                    {}, {}, world.run());
  waitpid(host, nullptr, 0);
  REQUIRE(output.has_value());
  CHECK(output.value().out == "int main;\nadded\n");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a worktree whose state directory lies on another mount gets placeholders") {
  const World world;
  Roots roots = world.roots();
  roots.worktree->overlay = false;
  look_at_mounts(World::machine(), "/proc", roots);
  CHECK_FALSE(roots.worktree->overlay);
  auto compiled = compile(world.preset(), roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  CHECK_FALSE(compiled.value().overlay);
  CHECK(compiled.value().evidence.get("absentNames").as_string() == "placeholder");
}

TEST_CASE("an overlay directory that changed since it was made is refused") {
  const World world;
  if (!has_overlay(world)) {
    return;
  }
  const Compiled compiled = world.compiled(Backend::native);
  fs::rename(world.path("attempt/overlay/0"), world.path("attempt/overlay/1"));
  fs::create_directories(world.path("attempt/overlay/0/work"));
  fs::create_directories(world.path("attempt/overlay/0/absent"));
  auto output = run(compiled, world.shell(compiled, "true"), {}, {}, world.run());
  REQUIRE(output.has_error());
  CHECK(output.error().code == "root-changed");
  REQUIRE(remove_placeholders(world.attempt()).has_value());
}

TEST_CASE("a run that root starts has a global uid of its own, and its files are the worktree owner's") {
  for (const bool foreign : {false, true}) {
    const World world;
    if (foreign) {
      world.give_to_user();
    }
    const Roots roots = world.roots();
    if (geteuid() != 0 || !roots.idmapped) {
      CHECK(geteuid() != 0);  // every file system tests run on takes idmapped mounts
      return;
    }
    const std::uint32_t owner = foreign ? 65534 : 0;
    world.write(world.path("tree/private"), "private\n");
    fs::permissions(world.path("tree/private"), fs::perms::owner_read | fs::perms::owner_write);
    REQUIRE(chown(world.path("tree/private").c_str(), owner, owner) == 0);
    const Compiled compiled = world.compiled(Backend::native);
    CHECK(compiled.idmapped);
    CHECK(compiled.run_uid >= 0x7a000000u);
    CHECK(compiled.run_uid != world.roots().run_id);  // another for each run
    CHECK(compiled.evidence.get("userMode").as_string() == "own");
    const std::string token = "35" + std::to_string(getpid());
    auto output = run(compiled,
                      world.shell(compiled,
                                  "id -u; cat private; echo x > src/made; mkdir d; echo y > $HOME/y; "
                                  "echo z > $TMPDIR/z; stat -c %u src/made private; chmod u+s src/made"),
                      {}, {}, world.run());
    INFO((output.has_error() ? output.error().object + ": " + output.error().detail : ""));
    REQUIRE(output.has_value());
    const std::string inside = foreign ? "65534" : "1000";
    CHECK(output.value().out == inside + "\nprivate\n" + inside + "\n" + inside + "\n");
    for (const char* name : {"tree/src/made", "tree/d", "attempt/home/y", "attempt/temp/z"}) {
      INFO(name);
      struct stat info {};
      REQUIRE(lstat(world.path(name).c_str(), &info) == 0);
      CHECK(info.st_uid == owner);
      CHECK(info.st_gid == owner);
      CHECK((info.st_mode & 07000) == 0);
    }
    REQUIRE(remove_placeholders(world.attempt()).has_value());
  }
}

TEST_CASE("a run of root keeps the owner's uid when asked to, or where nothing can be idmapped") {
  setenv("HITCHRAIL_OWN_UID", "off", 1);
  const World world;
  const Roots roots = world.roots();
  unsetenv("HITCHRAIL_OWN_UID");
  CHECK_FALSE(roots.idmapped);
  auto compiled = compile(world.preset(), roots, World::machine(), {.backend = Backend::native});
  REQUIRE(compiled.has_value());
  CHECK_FALSE(compiled.value().idmapped);
  CHECK(compiled.value().run_uid == geteuid());
}
