// What is found below the granted roots before a launch, and what of it is refused.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "boundary/scan.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

using Codes = std::vector<std::string>;

Codes codes(const Scan& found) {
  Codes list;
  for (const Error& error : found.refusals) {
    list.push_back(error.code);
  }
  return list;
}

Scan scanned(const World& world, const Preset& preset, const ScanLimits& limits = {}) {
  Roots roots = world.roots();
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto found = scan(preset, roots, limits);
  INFO((found.has_error() ? found.error().code + ": " + found.error().object : ""));
  REQUIRE(found.has_value());
  return found.value();
}
Scan scanned(const World& world) {
  return scanned(world, world.preset());
}

std::vector<std::string> below(const World& world, const std::vector<Root>& roots) {
  std::vector<std::string> names;
  for (const Root& root : roots) {
    names.push_back(root.path.substr(world.worktree().size() + 1));
  }
  return names;
}

Fd bound(const std::string& path, int type, bool listens) {
  Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE((!listens || listen(socket.get(), 4) == 0));
  return socket;
}

// In a mount namespace of its own; what it returns is the child's exit status.
int with_mounts(const std::function<int()>& body) {
  const uid_t uid = geteuid();
  const pid_t child = fork();
  if (child == 0) {
    if (unshare((uid == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWNS) != 0 ||
        (uid == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)) {
      _exit(98);
    }
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

}  // namespace

TEST_CASE("a hard link that exists before the launch and leads out of the worktree is refused") {
  const World world;
  fs::create_hard_link(world.path("outside/secret"), world.path("tree/src/innocent"));
  fs::create_hard_link(world.path("outside/secret"), world.path("tree/also"));
  const Scan found = scanned(world);
  REQUIRE(codes(found) == Codes{"hard-link-outside"});
  const Error& error = found.refusals.front();
  CHECK(error.kind == ErrorClass::refused);
  CHECK(error.object == world.path("tree/also"));
  CHECK(error.detail.find("1 files") != std::string::npos);
  CHECK_FALSE(error.remedy.empty());
  Roots roots = world.roots();
  roots.scan = std::make_shared<const Scan>(found);
  auto compiled = compile(world.preset(), roots, World::machine());
  REQUIRE(compiled.has_value());
  CHECK(admit(compiled.value()).error().code == "hard-link-outside");
  CHECK(world.read(world.path("outside/secret")) == "secret\n");
}

TEST_CASE("a file with all its names in the worktree is no matter, in whatever order they are met") {
  const World world;
  fs::create_directories(world.path("tree/a/b/c"));
  world.write(world.path("tree/a/file"), "x");
  fs::create_hard_link(world.path("tree/a/file"), world.path("tree/a/b/c/file"));
  fs::create_hard_link(world.path("tree/a/file"), world.path("tree/z"));
  CHECK(codes(scanned(world)).empty());
}

TEST_CASE("names in two writable roots belong together") {
  const World world;
  fs::create_directory(world.path("second"));
  world.write(world.path("second/file"), "x");
  fs::create_hard_link(world.path("second/file"), world.path("tree/src/file"));
  CHECK(codes(scanned(world)) == Codes{"hard-link-outside"});
  Preset preset = world.preset();
  preset.write_paths.push_back(world.path("second"));
  CHECK(codes(scanned(world, preset)).empty());
}

TEST_CASE("a writable name of a protected file is refused: it would be a way around the protection") {
  const World world;
  fs::create_directory(world.path("tree/.claude"));
  world.write(world.path("tree/.claude/settings.json"), "{}");
  fs::create_hard_link(world.path("tree/.claude/settings.json"), world.path("tree/src/x"));
  const Scan found = scanned(world);
  REQUIRE(codes(found) == Codes{"hard-link-protected"});
  CHECK(found.refusals.front().object == world.path("tree/src/x"));
}

TEST_CASE("links between files that the run cannot write are nobody's business") {
  const World world;
  for (const char* name : {"tree/.agents", "tree/.codex", "tree/.git/objects"}) {
    fs::create_directory(world.path(name));
  }
  world.write(world.path("tree/.agents/a"), "a");
  fs::create_hard_link(world.path("tree/.agents/a"), world.path("tree/.codex/a"));
  world.write(world.path("outside/object"), "o");  // as `git clone --local` links objects
  fs::create_hard_link(world.path("outside/object"), world.path("tree/.git/objects/o"));
  CHECK(codes(scanned(world)).empty());
}

TEST_CASE("a masked dotfile's name is not an outside one") {
  const World world;
  world.write(world.path("tree/.env"), "TOKEN=1\n");
  fs::create_hard_link(world.path("tree/.env"), world.path("tree/src/env"));
  Preset preset = world.preset();
  CHECK(codes(scanned(world, preset)).empty());
  preset.dotfile_masking = true;
  CHECK(codes(scanned(world, preset)).empty());
  fs::create_hard_link(world.path("tree/.env"), world.path("outside/env"));
  CHECK(codes(scanned(world, preset)) == Codes{"hard-link-outside"});
}

TEST_CASE("packages linked from a store: refused, unless the folder of links is declared as a store") {
  const World world;
  fs::create_directories(world.path("store/files"));
  fs::create_directories(world.path("tree/node_modules/.pnpm/a@1/node_modules/a"));
  const std::string linked = world.path("tree/node_modules/.pnpm/a@1/node_modules/a/index.js");
  world.write(world.path("store/files/index.js"), "module");
  fs::create_hard_link(world.path("store/files/index.js"), linked);
  fs::create_directory_symlink(".pnpm/a@1/node_modules/a", world.path("tree/node_modules/a"));
  Preset preset = world.preset();
  CHECK(codes(scanned(world, preset)) == Codes{"hard-link-outside"});
  SECTION("the store itself, readable, does not help: the links are writable") {
    preset.stores = {world.path("store")};
    CHECK(codes(scanned(world, preset)) == Codes{"hard-link-protected"});
  }
  SECTION("the folder of links, read-only, does") {
    preset.stores = {"<workspace>/node_modules/.pnpm"};
    CHECK(codes(scanned(world, preset)).empty());
    preset.dotfile_masking = true;  // a store is not masked, though its name begins with a dot
    const Scan found = scanned(world, preset);
    CHECK(codes(found).empty());
    CHECK(found.masks.empty());
  }
  SECTION("but not when a package was linked to another place too") {
    preset.stores = {"<workspace>/node_modules/.pnpm"};
    fs::create_hard_link(linked, world.path("tree/src/copy.js"));
    CHECK(codes(scanned(world, preset)) == Codes{"hard-link-outside"});
  }
}

TEST_CASE("more entries than the bound are refused") {
  const World world;
  for (int i = 0; i < 60; ++i) {
    world.write(world.path("tree/src/f" + std::to_string(i)), "");
  }
  ScanLimits limits;
  limits.max_entries = 50;
  CHECK(codes(scanned(world, world.preset(), limits)) == Codes{"hard-link-limit"});
  limits.max_entries = 63;  // .git, src, main.c and 60 files
  CHECK(codes(scanned(world, world.preset(), limits)).empty());
}

TEST_CASE("a set-id file where the run may write is refused, and only there") {
  const World world;
  const auto set = [&](const std::string& name, mode_t mode) {
    fs::create_directories(fs::path(world.path(name)).parent_path());
    world.write(world.path(name), "#!/bin/sh\n");
    REQUIRE(chmod(world.path(name).c_str(), mode) == 0);
  };
  set("tree/.git/hooks/held", 04755);  // protected
  set("tree/lib/.git/hooks/held", 02755);
  set("tree/cache/denied", 04755);
  REQUIRE(chmod(world.path("tree/src").c_str(), 02755) == 0);  // a folder hands down its group
  Preset preset = world.preset();
  preset.denied_paths.push_back("<workspace>/cache");
  CHECK(codes(scanned(world, preset)).empty());
  CHECK(codes(scanned(world)) == Codes{"set-id-inside"});
  set("tree/src/group", 02755);
  set("tree/src/user", 04755);
  const Scan found = scanned(world, preset);
  REQUIRE(codes(found) == Codes{"set-id-inside"});
  CHECK(found.refusals.front().object == world.path("tree/src/group"));
  CHECK(found.refusals.front().detail.find(world.path("tree/src/user")) != std::string::npos);
  REQUIRE(chmod(world.path("tree/src/group").c_str(), 0755) == 0);
  REQUIRE(chmod(world.path("tree/src/user").c_str(), 0755) == 0);
  set("tree/src/.env", 04755);
  CHECK(codes(scanned(world, preset)) == Codes{"set-id-inside"});
  preset.dotfile_masking = true;
  CHECK(codes(scanned(world, preset)).empty());
}

TEST_CASE("a denied folder is not looked at") {
  const World world;
  fs::create_directory(world.path("tree/private"));
  fs::create_hard_link(world.path("outside/secret"), world.path("tree/private/link"));
  const Fd socket = bound(world.path("tree/private/s"), SOCK_STREAM, true);
  Preset preset = world.preset();
  preset.denied_paths = {"<workspace>/private"};
  CHECK(codes(scanned(world, preset)).empty());
}

TEST_CASE("a socket in the worktree is refused while somebody is bound to it, and harmless afterwards") {
  const World world;
  for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
    const std::string path = world.path("tree/src/s" + std::to_string(type));
    {
      const Fd socket = bound(path, type, type != SOCK_DGRAM);
      const Scan found = scanned(world);
      REQUIRE(codes(found) == Codes{"listening-socket"});
      CHECK(found.refusals.front().object == path);
    }
    CHECK(fs::is_socket(path));
    CHECK(codes(scanned(world)).empty());
  }
}

TEST_CASE("nobody notices that a socket was looked at") {
  const World world;
  const Fd socket = bound(world.path("tree/s"), SOCK_STREAM | SOCK_NONBLOCK, true);
  CHECK(codes(scanned(world)) == Codes{"listening-socket"});
  CHECK(accept(socket.get(), nullptr, nullptr) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("a second name of an outside listener's socket, or one bound by a relative path, is found") {
  const World world;
  {
    const Fd socket = bound(world.path("outside/s"), SOCK_STREAM, true);
    CHECK(codes(scanned(world)).empty());
    fs::rename(world.path("outside/s"), world.path("tree/moved"));
    CHECK(codes(scanned(world)) == Codes{"listening-socket"});
  }
  fs::remove(world.path("tree/moved"));
  const fs::path before = fs::current_path();
  fs::current_path(world.path("tree"));
  const Fd socket = bound("relative", SOCK_STREAM, true);
  fs::current_path(before);
  CHECK(codes(scanned(world)) == Codes{"listening-socket"});
}

TEST_CASE("a socket bound through a link of the worktree that leads out is not in the worktree") {
  const World world;
  fs::create_directory_symlink(world.outside(), world.path("tree/link"));
  const Fd socket = bound(world.path("tree/link/s"), SOCK_STREAM, true);
  CHECK(codes(scanned(world)).empty());
}

TEST_CASE("a listener in a root that may only be read is refused too") {
  const World world;
  fs::create_directory(world.path("tools"));
  Preset preset = world.preset();
  preset.read_paths = {world.path("tools")};
  const Fd socket = bound(world.path("tools/s"), SOCK_STREAM, true);
  CHECK(codes(scanned(world, preset)) == Codes{"listening-socket"});
}

TEST_CASE("a listener in a protected folder is refused, in git's own directory it is out of sight") {
  const World world;
  {
    const Fd socket = bound(world.path("tree/.git/fsmonitor--daemon.ipc"), SOCK_STREAM, true);
    Roots roots = world.roots();
    roots.git_objects = resolve_root(world.path("tree/.git")).value();
    auto found = scan(world.preset(), roots);
    REQUIRE(found.has_value());
    CHECK(codes(found.value()).empty());
  }
  fs::create_directory(world.path("tree/.codex"));
  const Fd socket = bound(world.path("tree/.codex/s"), SOCK_STREAM, true);
  CHECK(codes(scanned(world)) == Codes{"listening-socket"});
}

TEST_CASE("a file system mounted inside a root is refused, unless it is granted itself or denied") {
  const World world;
  fs::create_directories(world.path("tree/data/inner"));
  const auto outcome = [&](const std::function<void(Preset&)>& change) {
    return with_mounts([&] {
      if (mount("tmpfs", world.path("tree/data").c_str(), "tmpfs", 0, nullptr) != 0) {
        return 97;
      }
      Preset preset = world.preset();
      change(preset);
      Roots roots = world.roots();
      if (add_preset_paths(preset, roots).has_error()) {
        return 96;
      }
      const auto found = scan(preset, roots);
      return found.has_error()                               ? 95
             : codes(found.value()) == Codes{"nested-mount"} ? 1
             : codes(found.value()).empty()                  ? 0
                                                             : 94;
    });
  };
  CHECK(outcome([](Preset&) {}) == 1);
  CHECK(outcome([](Preset& preset) { preset.denied_paths = {"<workspace>/data"}; }) == 0);
  CHECK(outcome([](Preset& preset) { preset.read_paths = {"<workspace>/data"}; }) == 0);
  CHECK(outcome([](Preset& preset) { preset.write_paths.push_back("<workspace>/data"); }) == 0);
}

TEST_CASE("mountinfo: octal escapes, removed mount points, and lines that the kernel does not write") {
  const auto mounts = parse_mounts(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "23 22 0:5 /sub /a\\040b\\011c\\012d\\134e rw,nosuid shared:2 - tmpfs tmpfs rw\n"
      "24 22 0:6 / /gone//deleted rw - tmpfs tmpfs rw\n");
  REQUIRE(mounts.has_value());
  REQUIRE(mounts.value().size() == 2);
  CHECK(mounts.value()[1].id == 23);
  CHECK(mounts.value()[1].device == "0:5");
  CHECK(mounts.value()[1].root == "/sub");
  CHECK(mounts.value()[1].point == "/a b\tc\nd\\e");
  for (const char* bad : {"22 1 8:1 / /\\9 rw\n", "22 1 8:1 / /a\\04\n", "22 1 8:1 / /a\\000b rw\n",
                          "x 1 8:1 / /\n", "22 1 8:1\n", "22 1 8:1 / / rw"}) {
    INFO(bad);
    REQUIRE(parse_mounts(bad).has_error());
    CHECK(parse_mounts(bad).error().code == "mounts-unreadable");
  }
  CHECK(read_mounts().has_value());
}

TEST_CASE("git directories below the top level are found, as directories and as files") {
  const World world;
  for (const char* name : {"tree/lib/.git", "tree/deep/a/b/.git", "tree/modules", "tree/hidden"}) {
    fs::create_directories(world.path(name));
  }
  fs::create_directory(world.path("tree/sub"));
  world.write(world.path("tree/sub/.git"), "gitdir: ../.git/modules/sub\n");
  fs::create_directory(world.path("tree/odd"));
  world.write(world.path("tree/odd/.git"), "gitdir: ../hidden\n");  // a git directory where the run may write
  const Scan found = scanned(world);
  CHECK(codes(found).empty());
  CHECK(below(world, found.nested_git) ==
        std::vector<std::string>{"deep/a/b/.git", "hidden", "lib/.git", "odd/.git", "sub/.git"});
}

namespace {

void make_repository(const World& world, const std::string& at) {
  fs::create_directories(world.path(at + "/objects"));
  fs::create_directories(world.path(at + "/refs"));
  world.write(world.path(at + "/HEAD"), "ref: refs/heads/main\n");
  world.write(world.path(at + "/config"), "[core]\n");
}

}  // namespace

TEST_CASE("what git takes for a repository is held whatever its name is, and nothing less is") {
  const World world;
  make_repository(world, "tree/bare");
  make_repository(world, "tree/deep/x.git");
  fs::create_directories(world.path("tree/half/objects"));
  world.write(world.path("tree/half/HEAD"), "x");
  fs::create_directories(world.path("tree/linked"));
  world.write(world.path("tree/linked/HEAD"), "ref: refs/heads/main\n");
  world.write(world.path("tree/linked/commondir"), "../half\n");
  fs::create_hard_link(world.path("tree/bare/HEAD"), world.path("tree/bare/objects/x"));
  Scan found = scanned(world);
  CHECK(codes(found).empty());
  CHECK(below(world, found.nested_git) == std::vector<std::string>{"bare", "deep/x.git", "half", "linked"});
  SECTION("a writable name of a file in it is refused") {
    fs::create_hard_link(world.path("tree/bare/config"), world.path("tree/src/config"));
    CHECK(codes(scanned(world)) == Codes{"hard-link-protected"});
    fs::remove(world.path("tree/src/config"));
    world.write(world.path("tree/half/config"), "[core]\n");
    fs::create_hard_link(world.path("tree/half/config"), world.path("tree/src/config"));
    CHECK(codes(scanned(world)) == Codes{"hard-link-protected"});
  }
  SECTION("one that comes before the second look is refused") {
    world.write(world.path("tree/half/refs"), "x");
    const Status again = recheck_scan(found);
    CHECK(again.has_value());  // held already
    make_repository(world, "tree/late");
    REQUIRE(recheck_scan(found).has_error());
    CHECK(recheck_scan(found).error().code == "nested-git-appeared");
  }
  SECTION("its dotfiles are still masked") {
    world.write(world.path("tree/bare/.env"), "x");
    fs::create_directories(world.path("tree/bare/main"));
    world.write(world.path("tree/bare/main/.env"), "x");
    Preset preset = world.preset();
    preset.dotfile_masking = true;
    const auto masks = below(world, scanned(world, preset).masks);
    CHECK(std::count(masks.begin(), masks.end(), "bare/.env") == 1);
    CHECK(std::count(masks.begin(), masks.end(), "bare/main/.env") == 1);
  }
}

TEST_CASE("a linked worktree's common directory is held, also one that only commondir names") {
  const World world;
  fs::create_directories(world.path("tree/lw"));
  fs::create_directories(world.path("tree/store/worktrees/lw"));
  fs::create_directories(world.path("tree/store/objects"));
  world.write(world.path("tree/store/config"), "[core]\n");
  world.write(world.path("tree/lw/.git"), "gitdir: " + world.path("tree/store/worktrees/lw") + "\n");
  const std::string commondir = world.path("tree/store/worktrees/lw/commondir");
  world.write(commondir, "../..\n");
  CHECK(below(world, scanned(world).nested_git) == std::vector<std::string>{"lw/.git", "store"});
  SECTION("outside what the run may write there is nothing to hold") {
    world.write(commondir, world.path("elsewhere") + "\n");
    CHECK(below(world, scanned(world).nested_git) ==
          std::vector<std::string>{"lw/.git", "store/worktrees/lw"});
  }
  SECTION("a commondir that is a link, or leads through one, is refused") {
    fs::create_directory_symlink("store", world.path("tree/link"));
    world.write(commondir, world.path("tree/link") + "\n");
    CHECK(codes(scanned(world)) == Codes{"protected-name-symlink"});
    fs::remove(commondir);
    fs::create_symlink("../../config", commondir);
    CHECK(codes(scanned(world)) == Codes{"protected-name-symlink"});
  }
  SECTION("a root that is the common directory is refused") {
    world.write(commondir, "../../..\n");
    CHECK(codes(scanned(world)) == Codes{"nested-git-root"});
  }
  SECTION("an endless commondir is refused") {
    world.write(commondir, "../.." + std::string((1u << 20) + 1, '\n'));
    CHECK(codes(scanned(world)) == Codes{"protected-name-type"});
  }
}

TEST_CASE("the top-level .git file of a root is followed; a root that is a repository itself is refused") {
  const World world;
  fs::create_directories(world.path("more"));
  Preset preset = world.preset();
  preset.write_paths.push_back(world.path("more"));
  SECTION("followed") {
    fs::create_directories(world.path("more/.real"));
    world.write(world.path("more/.git"), "gitdir: .real\n");
    const Scan found = scanned(world, preset);
    CHECK(codes(found).empty());
    REQUIRE(found.nested_git.size() == 1);
    CHECK(found.nested_git.front().path == world.path("more/.real"));
  }
  SECTION("refused") {
    make_repository(world, "more");
    CHECK(codes(scanned(world, preset)) == Codes{"nested-git-root"});
    fs::create_directories(world.path("more/.git"));  // git takes that one
    CHECK(codes(scanned(world, preset)).empty());
  }
}

TEST_CASE(
    "a nested git directory that is a link, or leads through one, is refused; so is a FIFO of that name") {
  const World world;
  fs::create_directories(world.path("tree/lib/real"));
  SECTION("a link") {
    fs::create_directory_symlink("real", world.path("tree/lib/.git"));
    CHECK(codes(scanned(world)) == Codes{"protected-name-symlink"});
  }
  SECTION("a file that leads through a link") {
    fs::create_directory_symlink("lib", world.path("tree/link"));
    world.write(world.path("tree/lib/.git"), "gitdir: ../link/real\n");
    CHECK(codes(scanned(world)) == Codes{"protected-name-symlink"});
  }
  SECTION("a FIFO") {
    REQUIRE(mkfifo(world.path("tree/lib/.git").c_str(), 0644) == 0);
    CHECK(codes(scanned(world)) == Codes{"protected-name-type"});
  }
}

TEST_CASE("more nested git directories than the bound are refused") {
  const World world;
  for (int i = 0; i < 4; ++i) {
    fs::create_directories(world.path("tree/r" + std::to_string(i) + "/.git"));
  }
  ScanLimits limits;
  limits.max_nested_git = 3;
  CHECK(codes(scanned(world, world.preset(), limits)) == Codes{"nested-git-limit"});
}

TEST_CASE(
    "dotfiles to be masked: at every depth, not what has a handling of its own, not below one another") {
  const World world;
  fs::create_directories(world.path("tree/.github/.hidden"));
  fs::create_directories(world.path("tree/src/deep/.cache"));
  fs::create_directory(world.path("tree/.claude"));
  fs::create_directories(world.path("tree/lib/.git"));
  for (const char* name : {".env", ".gitignore", ".gitattributes", ".gitmodules", "src/.env", ".claude/.x"}) {
    world.write(world.path(std::string("tree/") + name), "x");
  }
  fs::create_symlink("src/main.c", world.path("tree/.link"));
  fs::create_directory(world.path("tools"));
  world.write(world.path("tools/.token"), "x");
  Preset preset = world.preset();
  preset.read_paths = {world.path("tools")};
  CHECK(scanned(world, preset).masks.empty());
  preset.dotfile_masking = true;
  Scan found = scanned(world, preset);
  CHECK(codes(found).empty());
  REQUIRE_FALSE(found.masks.empty());
  CHECK(found.masks.front().path == world.path("tools/.token"));
  found.masks.erase(found.masks.begin());
  CHECK(below(world, found.masks) ==
        std::vector<std::string>{".env", ".github", ".link", "src/.env", "src/deep/.cache"});
  CHECK(below(world, found.nested_git) == std::vector<std::string>{"lib/.git"});
  ScanLimits limits;
  limits.max_masks = 5;
  CHECK(codes(scanned(world, preset, limits)) == Codes{"dotfile-mask-limit"});
}

TEST_CASE(
    "hostile trees: FIFOs, devices, loops and odd names are walked, and nothing is opened or followed") {
  const World world;
  REQUIRE(mkfifo(world.path("tree/fifo").c_str(), 0644) == 0);
  REQUIRE(mkfifo(world.path("tree/src/.gitignore").c_str(), 0644) == 0);
  fs::create_directory_symlink("..", world.path("tree/src/loop"));
  fs::create_symlink("itself", world.path("tree/itself"));
  const std::string odd = "new\nline\x1b[31m \xff";
  fs::create_directory(world.path("tree/" + odd));
  fs::create_hard_link(world.path("outside/secret"), world.path("tree/" + odd + "/" + odd));
  if (geteuid() == 0) {
    REQUIRE(mknod(world.path("tree/device").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0);
  }
  const std::int64_t begin = monotonic_nanos();
  const Scan found = scanned(world);
  CHECK(monotonic_nanos() - begin < 5'000'000'000);
  REQUIRE(codes(found) == Codes{"hard-link-outside"});
  CHECK(found.refusals.front().object == world.path("tree/" + odd + "/" + odd));
  CHECK(found.refusals.front().detail.find('\x1b') == std::string::npos);
}

TEST_CASE("a link at the bottom of a folder deeper than PATH_MAX is found; folders without end are refused") {
  const World world;
  const auto dig = [&](int levels) {
    int at = open(world.path("tree").c_str(), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < levels; ++i) {
      const std::string name(200, 'd');
      REQUIRE((mkdirat(at, name.c_str(), 0755) == 0 || errno == EEXIST));
      const int next = openat(at, name.c_str(), O_RDONLY | O_DIRECTORY);
      close(at);
      at = next;
    }
    return Fd(at);
  };
  {
    const Fd bottom = dig(100);
    CHECK(codes(scanned(world)).empty());
    REQUIRE(linkat(AT_FDCWD, world.path("outside/secret").c_str(), bottom.get(), "bottom", 0) == 0);
  }
  CHECK(codes(scanned(world)) == Codes{"hard-link-outside"});
  (void)dig(400);
  CHECK(codes(scanned(world)).front() == "hard-link-limit");
  const Fd tree(open(world.path("tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(remove_tree_at(tree.get(), std::string(200, 'd')).has_value());
}

TEST_CASE("a folder that this user cannot read: refused when the run could open it up, else harmless") {
  const World world;
  fs::create_directory(world.path("tree/closed"));
  world.write(world.path("tree/closed/x"), "x");
  for (const mode_t mode : {0000, 0300, 0400}) {
    INFO(mode);
    REQUIRE(chmod(world.path("tree/closed").c_str(), mode) == 0);
    const Scan found = scanned(world);
    if (geteuid() == 0) {
      CHECK(codes(found).empty());  // root reads it
    } else {
      REQUIRE(codes(found) == Codes{"scan-unreadable"});
      CHECK(found.refusals.front().object == world.path("tree/closed"));
    }
  }
  REQUIRE(chmod(world.path("tree/closed").c_str(), 0700) == 0);
}

TEST_CASE("a hundred thousand entries: one thread and many find the same") {
  const World world;
  for (int folder = 0; folder < 200; ++folder) {
    const std::string path = world.path("tree/src/" + std::to_string(folder));
    fs::create_directory(path);
    for (int file = 0; file < 500; ++file) {
      const int fd = open((path + "/" + std::to_string(file)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      REQUIRE(fd >= 0);
      close(fd);
    }
  }
  fs::create_hard_link(world.path("outside/secret"), world.path("tree/src/150/link"));
  ScanLimits one;
  one.threads = 1;
  ScanLimits many;
  many.threads = 8;
  const Scan first = scanned(world, world.preset(), one);
  const Scan second = scanned(world, world.preset(), many);
  CHECK(first.entries == 100'204);
  CHECK(second.entries == first.entries);
  REQUIRE(codes(first) == Codes{"hard-link-outside"});
  REQUIRE(codes(second) == codes(first));
  CHECK(first.refusals.front().object == second.refusals.front().object);
}
