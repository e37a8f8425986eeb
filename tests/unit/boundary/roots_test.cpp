// Which directories may be roots at all.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

// A machine where everything works, for the pure part.
Machine whole_machine() {
  Machine machine;
  machine.uid = 1000;
  machine.gid = 1000;
  machine.user_namespaces = machine.mount_api = machine.pid_namespace = machine.net_namespace =
      machine.seccomp = true;
  machine.landlock_abi = 7;
  return machine;
}

Roots roots_at(const std::string& path) {
  Roots roots;
  roots.worktree = WritableRoot{Root{path, {1, 2}, true, 1000, 1000}, {}, false};
  roots.operator_home = "/home/ann";
  roots.host_private = {"/home/ann/.local/state/hitchrail", "/home/ann/.config/hitchrail",
                        "/home/ann/.codex/auth.json"};
  roots.host_installed = {"/opt/hitchrail/plugins"};
  return roots;
}

Preset required_preset() {
  Preset preset;
  preset.id = "test";
  preset.required_capabilities = {"filesystem.read", "filesystem.write"};
  preset.digest = "sha256:0";
  return preset;
}

std::string refusal(const Roots& roots) {
  auto compiled = compile(required_preset(), roots, whole_machine());
  REQUIRE(compiled.has_value());
  return compiled.value().blockers.empty() ? "" : compiled.value().blockers.front().error.code;
}

}  // namespace

TEST_CASE("a project directory is a root") {
  CHECK(refusal(roots_at("/home/ann/project")).empty());
  CHECK(refusal(roots_at("/var/lib/builds/one")).empty());
  CHECK(refusal(roots_at("/tmp/one")).empty());
}

TEST_CASE("directories that hold more than one run may have are refused") {
  for (const char* path : {"/", "/etc", "/usr", "/var", "/home", "/root", "/tmp", "/dev/shm", "/proc/1",
                           "/sys/fs", "/home/ann"}) {
    INFO(path);
    CHECK(refusal(roots_at(path)) == "root-too-wide");
  }
}

TEST_CASE("a root neither contains nor lies in what is the host's own") {
  CHECK(refusal(roots_at("/home/ann/.local/state/hitchrail/x")) == "root-overlaps-host");
  CHECK(refusal(roots_at("/home/ann/.local")) == "root-overlaps-host");
  CHECK(refusal(roots_at("/home/ann/.config/hitchrail")) == "root-overlaps-host");
  CHECK(refusal(roots_at("/opt/hitchrail")) == "root-overlaps-host");
  CHECK(refusal(roots_at("/home/ann/.codex")) == "root-overlaps-host");
  CHECK(refusal(roots_at("/hitchrail/home/x")) == "root-overlaps-host");
  // A name that only begins alike is another directory.
  CHECK(refusal(roots_at("/opt/hitchrail-fork")).empty());
}

TEST_CASE("a read-only root may hold installed programs, but no private state") {
  Roots roots = roots_at("/home/ann/project");
  roots.read = {Root{"/opt/hitchrail", {1, 3}, true, 0, 0}};
  CHECK(refusal(roots).empty());
  roots.read = {Root{"/home/ann/.config", {1, 4}, true, 0, 0}};
  CHECK(refusal(roots) == "root-overlaps-host");
  roots.read = {Root{"/home/ann", {1, 5}, true, 0, 0}};
  CHECK(refusal(roots) == "root-too-wide");
}

TEST_CASE("a protected name is never a writable root or a part of its path") {
  CHECK(refusal(roots_at("/home/ann/project/.git")) == "protected-root");
  CHECK(refusal(roots_at("/home/ann/project/.claude/worktrees/a")) == "protected-root");
  CHECK(refusal(roots_at("/home/ann/project/.gitignored")).empty());
}

TEST_CASE("what the preset denies cannot be a root: deny wins") {
  Roots roots = roots_at("/home/ann/project");
  roots.denied = {Root{"/home/ann/project", {1, 2}, true, 0, 0}};
  CHECK(refusal(roots) == "root-denied");
  roots.denied = {Root{"/home/ann/project/secrets", {1, 9}, true, 0, 0}};
  CHECK(refusal(roots).empty());
}

TEST_CASE(
    "a path with a link in any component, or not in canonical form, is refused and its target not granted") {
  const World world;
  fs::create_directory_symlink(world.path("outside"), world.path("tree/evil"));
  fs::create_symlink(world.path("outside/secret"), world.path("tree/leaf"));
  for (const std::string& path :
       {world.path("tree/evil"), world.path("tree/evil/secret"), world.path("tree/leaf"),
        world.path("tree/../outside"), world.path("tree/."), world.path("tree//src"), world.path("tree/"),
        std::string("tree"), std::string()}) {
    INFO(path);
    auto root = resolve_root(path, false);
    REQUIRE(root.has_error());
    CHECK(root.error().code == "root-alias");
  }
  CHECK(resolve_root(world.path("tree/none")).error().code == "root-missing");
  CHECK(resolve_root(world.path("tree/src/main.c")).error().code == "root-not-directory");
}

TEST_CASE("compatibility links of the system are resolved on the host's side") {
  const World world;
  fs::create_directory_symlink(world.path("outside"), world.path("compat"));
  auto root = resolve_trusted(world.path("compat/secret"));
  REQUIRE(root.has_value());
  CHECK(root.value().path == world.path("outside/secret"));
}

TEST_CASE("a protected name that is a link or a device is refused before anything is made") {
  const World world;
  fs::create_directory(world.path("tree/sub"));
  fs::create_directory_symlink("sub", world.path("tree/.agents"));
  Roots roots = world.roots();
  auto compiled = compile(world.preset(), roots, World::machine());
  REQUIRE(compiled.has_value());
  REQUIRE(!compiled.value().blockers.empty());
  CHECK(compiled.value().blockers.front().error.code == "protected-name-symlink");
  CHECK(flat_plan(compiled.value(), world.run(), {}).error().code == "protected-name-symlink");
  CHECK_FALSE(fs::exists(world.path("tree/.codex")));

  fs::remove(world.path("tree/.agents"));
  REQUIRE(mkfifo(world.path("tree/.agents").c_str(), 0600) == 0);
  CHECK(compile(world.preset(), world.roots(), World::machine()).value().blockers.front().error.code ==
        "protected-name-type");
}

TEST_CASE("preset paths: the workspace and home forms stay below their base, absent ones are named") {
  const World world;
  Roots roots = world.roots();
  roots.operator_home = world.path("outside");
  Preset preset = world.preset();
  preset.read_paths = {"<workspace>", "~/none", "/usr/share"};
  preset.denied_paths = {"<workspace>/src", "~/secret"};
  std::vector<std::string> absent;
  REQUIRE(add_preset_paths(preset, roots, &absent).has_value());
  CHECK(absent == std::vector<std::string>{world.path("outside/none")});
  REQUIRE(roots.read.size() == 1);
  CHECK(roots.read[0].path == "/usr/share");
  REQUIRE(roots.denied.size() == 2);
  CHECK(roots.denied[0].path == world.worktree() + "/src");
  CHECK_FALSE(roots.worktree_read_only);
  roots = world.roots();
  roots.operator_home = world.path("outside");
  preset.read_paths = {"<workspace>/../outside"};
  CHECK(add_preset_paths(preset, roots).error().code == "preset-path-form");
  preset.read_paths = {};
  preset.write_paths = {};
  REQUIRE(add_preset_paths(preset, roots).has_value());
  CHECK(roots.worktree_read_only);
}
