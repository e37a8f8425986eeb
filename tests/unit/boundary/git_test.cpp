// Git inside a run, and git on hostile repositories.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;
namespace fs = std::filesystem;

namespace {

void sh(const std::string& script) {
  INFO(script);
  const std::string setup =
      "set -e; export GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
      "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";
  REQUIRE(std::system((setup + "{ " + script + "; } >/dev/null").c_str()) == 0);
}

// A repository in the world's worktree and, as `git` of the attempt, the private git directory of a run.
void make_repository(const World& world) {
  fs::remove_all(world.path("tree/.git"));
  sh("cd " + world.worktree() +
     "; git init -qb main; mkdir -p apps/x; echo 1 > apps/x/f; git add .; git commit -qm one");
}
void make_private_git(const World& world, const std::string& real, const std::string& branch,
                      const std::string& objects) {
  const std::string git = world.path("attempt/git");
  sh("git init -q --bare " + git + "; cp -r " + real + "/refs " + git + "/; rm -f " + git +
     "/config; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n' > " + git +
     "/config; echo ref: refs/heads/" + branch + " > " + git + "/HEAD; echo " + objects + " > " + git +
     "/objects/info/alternates");
}

RunOutput run_git(const World& world, Backend backend, const std::string& tree, const std::string& real,
                  const std::string& branch, const std::string& script) {
  Roots roots = world.roots();
  roots.worktree = inspect_writable_root(tree).value();
  roots.git_objects = resolve_root(real + "/objects").value();
  auto compiled = compile(world.preset(), roots, World::machine(), {.backend = backend});
  REQUIRE(compiled.has_value());
  REQUIRE(admit(compiled.value()).has_value());
  make_private_git(world, real, branch, inside(compiled.value(), world.run()).objects);
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  RunDirectories directories = world.run();
  directories.git = resolve_root(world.path("attempt/git")).value();
  Command command = world.shell(compiled.value(), script);
  command.env = inside(compiled.value(), directories).environment;
  for (const char* name :
       {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}) {
    command.env.emplace_back(name, "a@b");
  }
  auto output = run(compiled.value(), command, {}, {}, directories);
  INFO((output.has_error() ? output.error().code + " " + output.error().object + ": " + output.error().detail
                           : ""));
  REQUIRE(output.has_value());
  REQUIRE(remove_placeholders(world.attempt()).has_value());
  return output.value();
}

}  // namespace

TEST_CASE("commits are made in the private git directory; the real one does not change") {
  for (const Backend backend : World::backends()) {
    const World world;
    make_repository(world);
    sh("cp -r " + world.worktree() + "/.git " + world.path("before"));
    const RunOutput output = run_git(
        world, backend, world.worktree(), world.worktree() + "/.git", "main",
        "git reset -q; echo 2 >> apps/x/f; git status --short; git commit -qam two; git log --format=%s; "
        "cd apps/x; git rev-parse --show-toplevel; echo evil > $(git rev-parse --git-dir)/hooks/post-commit; "
        "git config core.fsmonitor /tmp/x");
    INFO(output.err);
    CHECK(output.out == " M apps/x/f\ntwo\none\n" + world.worktree() + "\n");
    sh("diff -r " + world.path("before") + " " + world.worktree() + "/.git");
  }
}

TEST_CASE(
    "in a linked worktree git works, and hooks and configuration of the common directory stay as they were") {
  for (const Backend backend : World::backends()) {
    const World world;
    make_repository(world);
    sh("cd " + world.worktree() + "; git worktree add -q " + world.path("linked") + " -b side; cp -r .git " +
       world.path("before"));
    const RunOutput output = run_git(world, backend, world.path("linked"), world.worktree() + "/.git", "side",
                                     "git reset -q; echo 2 >> apps/x/f; git commit -qam two; git log "
                                     "--format=%s; git rev-parse --show-toplevel; "
                                     "echo x > .git; ls " +
                                         world.worktree() + "/.git/hooks");
    INFO(output.err);
    CHECK(output.out == "two\none\n" + world.path("linked") + "\n");
    sh("diff -r " + world.path("before") + " " + world.worktree() + "/.git");
  }
}

TEST_CASE("a directory that is no repository gets none by accident") {
  const World world;
  fs::remove_all(world.path("tree/.git"));
  sh("git init -q " + world.path("tree/one"));
  const RunOutput output = world.run_shell(
      Backend::native, "git rev-parse --show-toplevel; cd one && git rev-parse --show-toplevel");
  CHECK(output.out == world.path("tree/one") + "\n");
  CHECK_FALSE(fs::exists(world.path("tree/.git")));
}

namespace {

Result<RunOutput> inspect(const World& world, Backend backend, bool import, const std::string& script) {
  Inspector what;
  what.worktree = resolve_root(world.worktree()).value();
  if (import) {
    what.import_git_dir = inspect_writable_root(world.worktree() + "/.git").value();
  }
  HR_TRY(compiled, inspector_boundary(what, World::machine(), {.backend = backend}));
  HR_CHECK(admit(compiled));
  Command command = world.shell(compiled, script);
  command.env = inside(compiled, {}).environment;
  return run(compiled, command, {});
}

}  // namespace

TEST_CASE("what a hostile repository makes git run can change nothing and reach nothing") {
  for (const Backend backend : World::backends()) {
    const World world;
    make_repository(world);
    const std::string marker = world.path("outside/ran");
    sh("cd " + world.worktree() + "; printf '#!/bin/sh\\ntouch " + marker + " apps/ran .git/ran; cat " +
       world.path("outside/secret") +
       " >&2; kill -9 $PPID\\n' > monitor; chmod +x monitor; git config core.fsmonitor " + world.worktree() +
       "/monitor");
    auto output = inspect(world, backend, false,
                          "git --no-optional-locks status --short; touch apps/direct .git/direct; true");
    REQUIRE(output.has_value());
    CHECK(output.value().err.find("secret\n") == std::string::npos);
    for (const std::string& path : {marker, world.path("tree/apps/ran"), world.path("tree/.git/ran"),
                                    world.path("tree/apps/direct"), world.path("tree/.git/direct")}) {
      INFO(path);
      CHECK_FALSE(fs::exists(path));
    }
  }
}

TEST_CASE(
    "the import boundary writes objects and refs, and neither configuration nor hooks nor the worktree") {
  const World world;
  make_repository(world);
  auto output = inspect(
      world, Backend::native, true,
      "cd .git; git update-ref refs/heads/new HEAD; echo x > ../apps/x/f; echo x > config; echo x > "
      "hooks/post-commit; "
      "echo x > info/exclude; mv hooks h; mv config c; rm -rf info; git rev-parse refs/heads/new | wc -c");
  REQUIRE(output.has_value());
  INFO(output.value().err);
  CHECK(output.value().out == "41\n");
  CHECK(world.read(world.path("tree/apps/x/f")) == "1\n");
  CHECK(fs::exists(world.path("tree/.git/refs/heads/new")));
  CHECK(world.read(world.path("tree/.git/config")).find("[core]") == 0);
  CHECK_FALSE(fs::exists(world.path("tree/.git/hooks/post-commit")));
  CHECK(fs::exists(world.path("tree/.git/info")));
  // What cannot be held is refused.
  CHECK(inspect(world, Backend::landlock, true, "true").error().code ==
        (World::has_landlock() ? "import-unproven" : "landlock-abi-old"));
  fs::remove_all(world.path("tree/.git/hooks"));
  CHECK(inspect(world, Backend::native, true, "true").error().code == "git-layout");
}
