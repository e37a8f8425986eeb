// Policy paths: what a preset's words come to, and the rules of paths among each other.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

std::string resolved(const World& world, const std::string& text) {
  Roots roots = world.roots();
  roots.operator_home = world.path("outside");
  auto path = resolve_policy_path(text, roots);
  return path.has_error() ? path.error().code : path.value().path + (path.value().exists ? "" : " (missing)");
}

Machine whole_machine(bool native = true) {
  Machine machine;
  machine.uid = machine.gid = 1000;
  machine.seccomp = true;
  machine.user_namespaces = machine.mount_api = machine.pid_namespace = machine.net_namespace = native;
  machine.landlock_abi = 7;
  machine.system = {{Root{"/usr", {9, 1}, true, 0, 0}, "/usr"}};
  return machine;
}
Root root(const std::string& path) {
  return Root{path, {1, std::hash<std::string>{}(path)}, true, 1000, 1000};
}
Roots roots() {
  Roots roots;
  roots.worktree = WritableRoot{root("/srv/tree"), {}, false};
  roots.operator_home = "/home/ann";
  return roots;
}
Preset preset(Enforcement enforcement = Enforcement::required) {
  Preset preset;
  preset.id = "test";
  preset.enforcement = enforcement;
  preset.required_capabilities = {"filesystem.read", "filesystem.write"};
  preset.digest = "sha256:0";
  return preset;
}
Compiled compiled(const Roots& with, const Machine& machine = whole_machine(),
                  const Preset& policy = preset()) {
  auto result = compile(policy, with, machine);
  REQUIRE(result.has_value());
  return result.value();
}
std::string refusal(const Compiled& boundary) {
  return boundary.blockers.empty() ? "" : boundary.blockers.front().error.code;
}
bool warned(const Compiled& boundary, const std::string& code) {
  return std::any_of(boundary.warnings.begin(), boundary.warnings.end(),
                     [&](const Warning& warning) { return warning.code == code; });
}

}  // namespace

TEST_CASE("the forms of a path come to one canonical path") {
  const World world;
  CHECK(resolved(world, "<workspace>") == world.worktree());
  CHECK(resolved(world, "<workspace>/src") == world.worktree() + "/src");
  CHECK(resolved(world, "~") == world.path("outside"));
  CHECK(resolved(world, "~/secret") == world.path("outside/secret"));
  CHECK(resolved(world, "/usr") == "/usr");
  CHECK(resolved(world, "/") == "/");
  for (const char* text :
       {"", "src", "./src", "~ann/x", "<workspace>x", "/usr/../etc", "/usr//lib", "$HOME", "<home>/x"}) {
    INFO(text);
    CHECK(resolved(world, text) == "preset-path-form");
  }
  CHECK(resolved(world, std::string("/usr/\0x", 7)) == "preset-path-form");
}

TEST_CASE("missing leaves are kept behind the nearest ancestor that exists") {
  const World world;
  CHECK(resolved(world, "<workspace>/none/deeper") == world.worktree() + "/none/deeper (missing)");
  CHECK(resolved(world, "~/none") == world.path("outside/none") + " (missing)");
  CHECK(resolved(world, "/none-of-this/here") == "/none-of-this/here (missing)");
  CHECK(resolved(world, "<workspace>/src/main.c/below") == "root-not-directory");
}

TEST_CASE("an alias that leaves its base is refused, one that stays below it comes to what it means") {
  const World world;
  fs::create_directory_symlink(world.path("outside"), world.path("tree/evil"));
  fs::create_directory_symlink("src", world.path("tree/inner"));
  fs::create_symlink(world.path("outside/nothing-there"), world.path("tree/dangling"));
  CHECK(resolved(world, "<workspace>/evil") == "root-alias");
  CHECK(resolved(world, "<workspace>/evil/none") == "root-alias");
  CHECK(resolved(world, "<workspace>/dangling") == "root-alias");
  CHECK(resolved(world, "<workspace>/inner") == world.worktree() + "/src");
  // By its absolute path it is the workspace's link all the same.
  CHECK(resolved(world, world.path("tree/evil")) == "root-alias");
  CHECK(resolved(world, world.path("tree/inner")) == "root-alias");
}

TEST_CASE("a home that is no directory stands for nothing") {
  const World world;
  Roots with = world.roots();
  for (const char* home : {"", "/", "/none-of-this"}) {
    with.operator_home = home;
    CHECK(resolve_policy_path("~/x", with).error().code == "home-unknown");
  }
}

// PB-07
TEST_CASE("a write grant on a link to something outside is refused and the target not granted") {
  const World world;
  fs::create_symlink(world.path("outside/secret"), world.path("tree/evil"));
  for (const std::string& path : {std::string("<workspace>/evil"), world.path("tree/evil")}) {
    Preset policy = world.preset();
    policy.write_paths = {"<workspace>", path};
    Roots with = world.roots();
    CHECK(add_preset_paths(policy, with).error().code == "root-alias");
    CHECK(with.write.empty());
  }
}

// PB-08
TEST_CASE(
    "a protected name that links into the same workspace is refused by one code, whatever it links to") {
  const World world;
  fs::create_directories(world.path("tree/sub/.agents"));
  for (const char* name : {".git", ".agents", ".codex", ".claude", ".hitchrail"}) {
    for (const char* target : {"sub/.agents", "src/main.c", "none", "."}) {
      INFO(name << " -> " << target);
      fs::remove_all(world.path(std::string("tree/") + name));
      fs::create_symlink(target, world.path(std::string("tree/") + name));
      auto boundary = compile(world.preset(), world.roots(), World::machine());
      REQUIRE(boundary.has_value());
      CHECK(refusal(boundary.value()) == "protected-name-symlink");
      fs::remove(world.path(std::string("tree/") + name));
    }
  }
}

// PB-02
TEST_CASE("a compatibility link of the system is resolved on the host's side") {
  if (!fs::is_symlink("/var/run")) {
    FAIL("this system has no /var/run link to try it with");
  }
  const World world;
  CHECK(resolved(world, "/var/run") == fs::canonical("/var/run").string());
}

TEST_CASE("the deepest entry decides, and at equal depth deny, then write, then read") {
  const World world;
  Preset policy = world.preset();
  policy.read_paths = {"<workspace>", "<workspace>/src"};
  policy.write_paths = {"<workspace>", "<workspace>/src"};
  Roots with = world.roots();
  REQUIRE(add_preset_paths(policy, with).has_value());
  CHECK(with.read.empty());
  REQUIRE(with.write.size() == 1);
  Roots denied = roots();
  denied.read = {root("/srv/data")};
  denied.denied = {root("/srv/data")};
  CHECK(refusal(compiled(denied)) == "root-denied");
}

TEST_CASE("a deny above or at the working directory is refused; below an unrelated deny a grant holds") {
  Roots with = roots();
  with.denied = {root("/srv")};
  CHECK(refusal(compiled(with)) == "root-denied");
  with.denied = {root("/srv/tree")};
  CHECK(refusal(compiled(with)) == "root-denied");
  with.denied = {root("/home/ann/.config")};
  with.read = {root("/home/ann/.config/tool")};
  for (const bool native : {true, false}) {
    CHECK(refusal(compiled(with, whole_machine(native))).empty());
  }
}

TEST_CASE("a grant below a deny inside another grant cannot be held and is refused") {
  Roots with = roots();
  with.denied = {root("/srv/tree/secrets")};
  CHECK(refusal(compiled(with)).empty());
  with.read = {root("/srv/tree/secrets/public")};
  CHECK(refusal(compiled(with)) == "deny-unproven");
}

TEST_CASE("the landlock backend refuses a read-only path inside a writable one") {
  Roots with = roots();
  with.stores = {root("/srv/tree/node_modules")};
  CHECK(refusal(compiled(with)).empty());
  CHECK(refusal(compiled(with, whole_machine(false))) == "read-only-unproven");
}

TEST_CASE("a denied name that does not exist is held at the top of a writable root, else it is said") {
  Roots with = roots();
  with.denied_absent = {"/srv/tree/.env", "/home/ann/.ssh", "/srv/tree/src/key.pem"};
  const Compiled boundary = compiled(with);
  CHECK(refusal(boundary).empty());
  const bool held =
      std::any_of(boundary.protected_names.begin(), boundary.protected_names.end(),
                  [](const Protected& name) { return name.root == "/srv/tree" && name.name == ".env"; });
  CHECK(held);
  std::size_t said = 0;
  for (const Warning& warning : boundary.warnings) {
    said += warning.code == "deny-absent" ? 1 : 0;
  }
  CHECK(said == 1);  // where no grant leads there is nothing to hold
}

TEST_CASE("denied paths of which git may have the content are said, in warnings and evidence") {
  Roots with = roots();
  with.git_objects = root("/srv/tree/.git/objects");
  CHECK_FALSE(warned(compiled(with), "git-has-denied"));
  with.denied = {root("/srv/other"), root("/srv/tree/.git/hooks")};
  CHECK_FALSE(warned(compiled(with), "git-has-denied"));
  with.denied.push_back(root("/srv/tree/keys"));
  const Compiled boundary = compiled(with);
  CHECK(warned(boundary, "git-has-denied"));
  REQUIRE(boundary.evidence.get("notHeld").items().size() == 1);
  CHECK(boundary.evidence.get("notHeld").items().front().as_string() == "git-has-denied");
  with.git_objects.reset();
  CHECK_FALSE(warned(compiled(with), "git-has-denied"));
}

TEST_CASE("more roots than the evidence lists are refused") {
  Roots with = roots();
  for (int i = 0; i < 520; ++i) {
    with.read.push_back(root("/srv/data/" + std::to_string(i)));
  }
  CHECK(refusal(compiled(with)) == "too-many-roots");
}

TEST_CASE("a root that another machine serves is refused where the preset wants local files") {
  Roots with = roots();
  with.worktree->root.remote = true;
  Preset policy = preset();
  CHECK(refusal(compiled(with, whole_machine(), policy)).empty());
  policy.local_only_handles = true;
  CHECK(refusal(compiled(with, whole_machine(), policy)) == "root-remote");
}

TEST_CASE("an advisory preset warns of what is not held, and allows what a provider's own sandbox needs") {
  Preset policy = preset(Enforcement::advisory);
  const Compiled boundary = compiled(roots(), whole_machine(), policy);
  CHECK(refusal(boundary).empty());
  CHECK(boundary.nested_allowed);
  CHECK(warned(boundary, "advisory-preset"));
  CHECK(boundary.evidence.get("state").as_string() == "advisory");
  policy.required_capabilities = {"filesystem.read", "network.none"};
  const Compiled less = compiled(roots(), whole_machine(), policy);
  CHECK(refusal(less).empty());
  CHECK(less.unheld == std::vector<std::string>{"network.none"});
  CHECK(warned(less, "capability-unheld"));
  CHECK(less.evidence.get("notHeld").items().size() == 1);
  CHECK_FALSE(compiled(roots()).nested_allowed);
  CHECK(refusal(compiled(roots(), whole_machine(false), policy)) == "nested-unavailable");
  Machine nothing = whole_machine(false);
  nothing.landlock_abi = 0;
  CHECK_FALSE(refusal(compiled(roots(), nothing, policy)).empty());
}

TEST_CASE("a run that would be this machine's uid 0 makes no namespaces of its own") {
  const Preset policy = preset(Enforcement::advisory);
  Machine machine = whole_machine();
  machine.uid = machine.gid = 0;
  Roots with = roots();
  CHECK(refusal(compiled(with, machine, policy)).empty());  // the worktree's owner, 1000
  with.worktree->root.uid = with.worktree->root.gid = 0;
  CHECK(refusal(compiled(with, machine, policy)) == "nested-as-root");
  CHECK(refusal(compiled(with, machine)).empty());  // a required preset
  with.idmapped = true;
  with.run_id = 0x7a000001;
  CHECK(refusal(compiled(with, machine, policy)).empty());
}

TEST_CASE(
    "a program's package: the last node_modules entry, else a Python environment, else the program alone") {
  const World world;
  fs::create_directories(world.path("outside/lib/node_modules/@scope/tool/bin"));
  fs::create_directories(world.path("outside/lib/node_modules/plain"));
  fs::create_directories(world.path("outside/venv/bin"));
  world.write(world.path("outside/lib/node_modules/@scope/tool/bin/x"), "x");
  world.write(world.path("outside/lib/node_modules/plain/x"), "x");
  world.write(world.path("outside/venv/pyvenv.cfg"), "x");
  world.write(world.path("outside/venv/bin/x"), "x");
  const auto package = [&](const std::string& program) {
    return package_root(world.path(program)).value().path;
  };
  CHECK(package("outside/lib/node_modules/@scope/tool/bin/x") ==
        world.path("outside/lib/node_modules/@scope/tool"));
  CHECK(package("outside/lib/node_modules/plain/x") == world.path("outside/lib/node_modules/plain"));
  CHECK(package("outside/venv/bin/x") == world.path("outside/venv"));
  CHECK(package("outside/secret") == world.path("outside/secret"));
}

TEST_CASE("PATH directories are granted canonically and once, and what is left out says why") {
  const World world;
  fs::create_directory(world.path("tools"));
  fs::create_directory_symlink(world.path("tools"), world.path("alias"));
  Roots with = world.roots();
  with.operator_home = world.path("outside");
  with.host_private = {world.path("outside/state")};
  fs::create_directories(world.path("outside/state/bin"));
  Machine machine = whole_machine();
  const std::string worktree = world.worktree();
  auto found = path_directories(world.path("tools") + ":" + world.path("alias") +
                                    "::bin:/usr/bin:/none-of-this:" + worktree +
                                    "/src:" + world.path("outside") + ":" + world.path("outside/state/bin"),
                                with, machine);
  REQUIRE(found.roots.size() == 1);
  CHECK(found.roots[0].path == world.path("tools"));
  std::vector<std::string> out;
  for (const auto& [path, why] : found.left_out) {
    CHECK_FALSE(why.empty());
    out.push_back(path);
  }
  for (const std::string& path : {std::string("bin"), std::string("/usr/bin"), worktree + "/src",
                                  world.path("outside"), world.path("outside/state/bin")}) {
    INFO(path);
    CHECK(std::find(out.begin(), out.end(), path) != out.end());
  }
}
