// What is covered or held inside: dotfiles, nested git directories, stores.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/scan.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

Compiled compiled(const World& world, const Preset& preset, Backend backend) {
  Roots roots = world.roots();
  REQUIRE(add_preset_paths(preset, roots).has_value());
  auto found = scan(preset, roots);
  REQUIRE(found.has_value());
  roots.scan = std::make_shared<const Scan>(std::move(found).value());
  auto result = compile(preset, roots, World::machine(), {.backend = backend});
  REQUIRE(result.has_value());
  return std::move(result).value();
}

RunOutput inside(const World& world, const Preset& preset, const std::string& script) {
  Compiled boundary = compiled(world, preset, Backend::native);
  const Status admitted = admit(boundary);
  INFO((admitted.has_error() ? admitted.error().code + ": " + admitted.error().detail : ""));
  REQUIRE(admitted.has_value());
  REQUIRE(make_placeholders(boundary, world.attempt()).has_value());
  auto output = run(boundary, world.shell(boundary, script), {}, {}, world.run());
  INFO((output.has_error() ? output.error().code + " " + output.error().object + ": " + output.error().detail
                           : ""));
  REQUIRE(output.has_value());
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  return std::move(output).value();
}

Preset masking(const World& world) {
  Preset preset = world.preset();
  preset.dotfile_masking = true;
  return preset;
}

std::string first_code(const Compiled& boundary) {
  const Status admitted = admit(boundary);
  return admitted.has_error() ? admitted.error().code : "";
}

}  // namespace

TEST_CASE("a masked dotfile cannot be read, opened up, moved, removed or written, at any depth") {
  const World world;
  fs::create_directories(world.path("tree/.github/workflows"));
  world.write(world.path("tree/.github/workflows/ci.yml"), "secret\n");
  world.write(world.path("tree/.env"), "secret\n");
  world.write(world.path("tree/src/.npmrc"), "secret\n");
  world.write(world.path("tree/plain"), "secret\n");
  fs::create_symlink("plain", world.path("tree/.link"));
  const RunOutput output = inside(
      world, masking(world),
      "for f in .env src/.npmrc .link; do cat $f && echo read $f; chmod 644 $f && echo chmod $f; "
      "mv $f moved && echo moved $f; rm -f $f && echo removed $f; (echo x > $f) && echo wrote $f; done; "
      "ls .github && echo listed; cat .github/workflows/ci.yml && echo read; mv .github x && echo moved; "
      "ln .env hard && echo linked; mv src other && cat other/.npmrc && echo after-rename; "
      "echo own > .mine && cat .mine; cat plain .gitignore 2>/dev/null");
  CHECK(output.out == "own\nsecret\n");
  CHECK(world.read(world.path("tree/.env")) == "secret\n");
  CHECK(world.read(world.path("tree/other/.npmrc")) == "secret\n");
  CHECK(fs::is_symlink(world.path("tree/.link")));
  CHECK(world.read(world.path("tree/.mine")) == "own\n");
}

TEST_CASE("without masking dotfiles are like other files") {
  const World world;
  world.write(world.path("tree/.env"), "1\n");
  CHECK(inside(world, world.preset(), "cat .env").out == "1\n");
}

TEST_CASE("dotfiles of a root that may only be read are masked too") {
  const World world;
  fs::create_directory(world.path("tools"));
  world.write(world.path("tools/.token"), "secret\n");
  world.write(world.path("tools/tool"), "tool\n");
  Preset preset = masking(world);
  preset.read_paths = {world.path("tools")};
  CHECK(inside(world, preset, "cat " + world.path("tools/tool") + " " + world.path("tools/.token")).out ==
        "tool\n");
}

TEST_CASE("a nested git directory can be read and not be changed; what is beside it can") {
  const World world;
  fs::create_directories(world.path("tree/lib/.git/hooks"));
  world.write(world.path("tree/lib/.git/config"), "[core]\n");
  fs::create_directory(world.path("tree/sub"));
  world.write(world.path("tree/sub/.git"), "gitdir: ../.git/modules/sub\n");
  for (const bool masks : {false, true}) {
    const RunOutput output = inside(world, masks ? masking(world) : world.preset(),
                                    "cat lib/.git/config sub/.git; (echo x >> lib/.git/config) && echo "
                                    "wrote; (echo x > lib/.git/hooks/pre-commit) && "
                                    "echo hook; mv lib/.git lib/old && echo moved; rm -rf lib/.git/hooks && "
                                    "echo removed; chmod 777 lib/.git/config && "
                                    "echo chmod; (echo x > sub/.git) && echo file; mv sub/.git x && echo "
                                    "file-moved; echo ok > lib/source && "
                                    "cat lib/source");
    CHECK(output.out == "[core]\ngitdir: ../.git/modules/sub\nok\n");
    CHECK(world.read(world.path("tree/lib/.git/config")) == "[core]\n");
    CHECK(fs::is_empty(world.path("tree/lib/.git/hooks")));
  }
}

TEST_CASE("a store inside the worktree is read-only: what links into it cannot be written") {
  const World world;
  fs::create_directories(world.path("store"));
  fs::create_directories(world.path("tree/node_modules/.pnpm/a"));
  world.write(world.path("store/index.js"), "module\n");
  fs::create_hard_link(world.path("store/index.js"), world.path("tree/node_modules/.pnpm/a/index.js"));
  Preset preset = world.preset();
  CHECK(first_code(compiled(world, preset, Backend::native)) == "hard-link-outside");
  preset.stores = {"<workspace>/node_modules/.pnpm"};
  const RunOutput output = inside(world, preset,
                                  "cd node_modules; cat .pnpm/a/index.js; (echo x >> .pnpm/a/index.js) && "
                                  "echo wrote; chmod 777 .pnpm/a/index.js && "
                                  "echo chmod; ln .pnpm/a/index.js mine && echo linked; mv .pnpm other && "
                                  "echo moved; echo new > beside; ls");
  CHECK(output.out == "module\nbeside\n");
  CHECK(world.read(world.path("store/index.js")) == "module\n");
}

TEST_CASE("the landlock backend covers and holds nothing below the top level, and says so by refusing") {
  if (!World::has_landlock()) {
    WARN("this kernel's Landlock is older than ABI 3: the landlock backend is not tested");
    return;
  }
  const World world;
  CHECK(first_code(compiled(world, world.preset(), Backend::landlock)).empty());
  CHECK(first_code(compiled(world, masking(world), Backend::landlock)) == "capability-unproven");
  fs::create_directories(world.path("tree/node_modules/.pnpm"));
  Preset stores = world.preset();
  stores.stores = {"<workspace>/node_modules/.pnpm"};
  CHECK(first_code(compiled(world, stores, Backend::landlock)) == "read-only-unproven");
  fs::create_directories(world.path("tree/lib/.git"));
  CHECK(first_code(compiled(world, world.preset(), Backend::landlock)) == "nested-git-unproven");
}

TEST_CASE("a preset that masks dotfiles is refused where nobody looked for them") {
  const World world;
  auto blind = compile(masking(world), world.roots(), World::machine());
  REQUIRE(blind.has_value());
  CHECK(first_code(blind.value()) == "scan-missing");
}

TEST_CASE("as many masks as are allowed need few descriptors, and one more is a refusal") {
  const World world;
  for (int i = 0; i < 2048; ++i) {
    if (i % 64 == 0) {
      fs::create_directories(world.path("tree/src/" + std::to_string(i / 64) + "/deep/er"));
    }
    world.write(world.path("tree/src/" + std::to_string(i / 64) + "/deep/er/.f" + std::to_string(i)),
                "secret\n");
  }
  struct rlimit limit {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const struct rlimit few { 256, limit.rlim_max };
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const RunOutput output = inside(
      world, masking(world), "find src -name '.f*' | wc -l; find src -name '.f*' -exec cat {} + | wc -c");
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(output.out == "2048\n0\n");
  world.write(world.path("tree/.more"), "");
  CHECK(first_code(compiled(world, masking(world), Backend::native)) == "dotfile-mask-limit");
}
