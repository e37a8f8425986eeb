#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

// Every refusal has its code and a remedy, and is the operator's policy, not an accident.
std::string refusal(const std::string& path, const OpenOptions& options = {}) {
  const auto result = open_worktree(path, options);
  if (result.has_value()) {
    return "";
  }
  CHECK_FALSE(result.error().remedy.empty());
  CHECK_FALSE(result.error().detail.empty());
  CHECK(result.error().kind == ErrorClass::refused);
  return result.error().code;
}

struct Home {
  explicit Home(const std::string& path) : before(std::getenv("HOME") == nullptr ? "" : std::getenv("HOME")) {
    ::setenv("HOME", path.c_str(), 1);
  }
  ~Home() { ::setenv("HOME", before.c_str(), 1); }
  std::string before;
};

TEST_CASE("a repository is opened at its top level, from wherever in it one stands") {
  const Repository repository;
  const Worktree top = repository.open();
  CHECK(top.root == repository.path);
  CHECK(top.subdirectory.empty());
  CHECK(top.kind == WorktreeKind::plain);
  CHECK(top.git_dir == repository.path + "/.git");
  CHECK(top.common_dir == top.git_dir);
  CHECK(top.object_format == "sha1");
  const Worktree sub = open_worktree(repository.path + "/dir").value();
  CHECK(sub.root == git(repository.path + "/dir", {"rev-parse", "--show-toplevel"}));
  CHECK(sub.subdirectory == "dir");
  CHECK(sub.identity() == top.identity());
  CHECK(read_head(top).value() == Head{"refs/heads/main", repository.head()});
}

TEST_CASE("the same worktree by another path has the same identity") {
  const Repository repository;
  fs::create_symlink(repository.path, repository.scratch.path() + "/link");
  const Worktree other = open_worktree(repository.scratch.path() + "/link/dir").value();
  CHECK(other.root == repository.path);
  CHECK(other.identity() == repository.open().identity());
}

TEST_CASE("a path that is no worktree is refused with its code") {
  const Repository repository;
  const std::string& base = repository.scratch.path();
  fs::create_directories(base + "/plain/inner");
  write(base + "/file", "x");
  fs::create_symlink("repo", base + "/link");
  CHECK(refusal(base + "/none") == "worktree-missing");
  CHECK(refusal(base + "/file") == "worktree-not-a-directory");
  CHECK(refusal(base + "/plain/inner") == "worktree-not-a-repository");
  CHECK(refusal(base + "/link") == "worktree-symlink");
  CHECK(refusal(base + "/link/") == "worktree-symlink");
}

TEST_CASE("a directory that merely holds repositories is not one") {
  const Scratch scratch;
  for (const char* name : {"a", "b"}) {
    fs::create_directory(scratch.path() + "/" + name);
    git(scratch.path() + "/" + name, {"init", "-q"});
  }
  CHECK(refusal(scratch.path()) == "worktree-not-a-repository");
  CHECK(refusal(scratch.path() + "/a").empty());
}

TEST_CASE("bare repositories and the inside of a git directory are refused as bare") {
  const Repository repository;
  git(repository.scratch.path(), {"clone", "-q", "--bare", "repo", "bare.git"});
  CHECK(refusal(repository.scratch.path() + "/bare.git") == "worktree-bare");
  CHECK(refusal(repository.scratch.path() + "/bare.git/refs") == "worktree-bare");
  CHECK(refusal(repository.path + "/.git") == "worktree-bare");
  CHECK(refusal(repository.path + "/.git/objects") == "worktree-bare");
  git(repository.path, {"config", "core.bare", "true"});
  CHECK(refusal(repository.path) == "worktree-bare");
}

TEST_CASE("an unreadable directory is refused, not taken for a missing one") {
  const Repository repository;
  ::chmod(repository.path.c_str(), 0000);
  const std::string answer = refusal(repository.path);
  ::chmod(repository.path.c_str(), 0755);
  if (::geteuid() == 0) {
    CHECK(answer.empty());  // root can read it
  } else {
    CHECK(answer == "worktree-unreadable");
  }
}

TEST_CASE("the system's directories, the home and what contains it are too wide") {
  const Repository repository;
  CHECK(refusal("/") == "worktree-too-wide");
  CHECK(refusal("/etc") == "worktree-too-wide");
  CHECK(refusal("/usr") == "worktree-too-wide");
  const Home home(repository.path);
  CHECK(refusal(repository.path) == "worktree-too-wide");
  CHECK(refusal(repository.path + "/dir") == "worktree-too-wide");
  CHECK(refusal(repository.scratch.path()) == "worktree-too-wide");
}

TEST_CASE("a repository below the home is not too wide") {
  const Repository repository;
  const Home home(repository.scratch.path());
  CHECK(refusal(repository.path).empty());
}

TEST_CASE("a worktree that contains or lies in what must stay apart is refused") {
  const Repository repository;
  const std::string& base = repository.scratch.path();
  const auto apart = [&](const std::string& path) {
    OpenOptions options;
    options.keep_apart = {base + "/elsewhere", path};
    return refusal(repository.path, options);
  };
  fs::create_directories(repository.path + "/state");
  write(repository.path + "/key.json", "{}");
  CHECK(apart(repository.path) == "worktree-overlaps-state");
  CHECK(apart(repository.path + "/state") == "worktree-overlaps-state");
  CHECK(apart(repository.path + "/not/yet/there") == "worktree-overlaps-state");
  CHECK(apart(repository.path + "/key.json") == "worktree-overlaps-state");
  CHECK(apart(base) == "worktree-overlaps-state");
  CHECK(apart(base + "/state").empty());
  fs::create_symlink(repository.path + "/state", base + "/alias");
  CHECK(apart(base + "/alias") == "worktree-overlaps-state");
}

TEST_CASE("somebody else's repository needs trust by name") {
  if (::geteuid() == 0) {
    const Repository repository;
    REQUIRE(::chown((repository.path + "/.git").c_str(), 12345, 12345) == 0);
    CHECK(refusal(repository.path) == "worktree-foreign-owner");
    CHECK(refusal(repository.path, {true, false, {}}).empty());
  } else {  // root's: a repository that root has made cannot be counted on, but its rule can: /proc is root's
    const Repository repository;
    CHECK(refusal(repository.path).empty());
    CHECK(repository.open().root_id.uid == ::geteuid());
  }
}

TEST_CASE("a linked worktree is opened with its own git directory and the common one") {
  const Repository repository;
  const std::string linked = repository.scratch.path() + "/linked";
  git(repository.path, {"worktree", "add", "-q", linked, "-b", "side"});
  const Worktree worktree = open_worktree(linked).value();
  CHECK(worktree.kind == WorktreeKind::linked);
  CHECK(worktree.git_dir == repository.path + "/.git/worktrees/linked");
  CHECK(worktree.common_dir == repository.path + "/.git");
  CHECK(read_head(worktree).value() == Head{"refs/heads/side", repository.head()});
  CHECK(worktree.identity() != repository.open().identity());
}

TEST_CASE("a .git file that points to somebody else's git directory is refused") {
  const Repository repository;
  const std::string linked = repository.scratch.path() + "/linked";
  git(repository.path, {"worktree", "add", "-q", linked, "-b", "side"});
  const std::string thief = repository.scratch.path() + "/thief";
  fs::create_directory(thief);
  SECTION("another worktree's") {
    fs::copy_file(linked + "/.git", thief + "/.git");
    CHECK(refusal(thief) == "worktree-gitdir-foreign");
  }
  SECTION("the main repository's") {
    write(thief + "/.git", "gitdir: " + repository.path + "/.git\n");
    CHECK(refusal(thief) == "worktree-gitdir-foreign");
  }
  SECTION("one that does not exist") {
    write(thief + "/.git", "gitdir: /nowhere/at/all\n");
    CHECK(refusal(thief) == "worktree-gitdir-foreign");
  }
  SECTION("a made-up one with a commondir elsewhere") {
    fs::create_directory(thief + "/fake");
    write(thief + "/fake/HEAD", "ref: refs/heads/main\n");
    write(thief + "/fake/commondir", repository.path + "/.git\n");
    write(thief + "/fake/gitdir", thief + "/.git\n");
    write(thief + "/.git", "gitdir: fake\n");
    CHECK(refusal(thief) == "worktree-gitdir-foreign");
  }
  SECTION("no path at all") {
    write(thief + "/.git", "hello\n");
    CHECK(refusal(thief) == "worktree-metadata-unsafe");
  }
  SECTION("a worktree moved by hand") {
    fs::rename(linked, repository.scratch.path() + "/moved");
    CHECK(refusal(repository.scratch.path() + "/moved") == "worktree-gitdir-foreign");
  }
}

TEST_CASE("a submodule is a worktree of its own when both sides agree") {
  const Repository inner;
  const Repository outer;
  git(outer.path, {"submodule", "--quiet", "add", inner.path, "sub"});
  const Worktree worktree = open_worktree(outer.path + "/sub").value();
  CHECK(worktree.kind == WorktreeKind::submodule);
  CHECK(worktree.root == outer.path + "/sub");
  CHECK(worktree.git_dir == outer.path + "/.git/modules/sub");
  git(outer.path + "/sub", {"config", "core.worktree", "../../../elsewhere"});
  CHECK(refusal(outer.path + "/sub") == "worktree-core-worktree");
}

TEST_CASE("core.worktree elsewhere is refused, pointing here it is not") {
  const Repository repository;
  git(repository.path, {"config", "core.worktree", "/etc"});
  CHECK(refusal(repository.path) == "worktree-core-worktree");
  git(repository.path, {"config", "core.worktree", "../"});
  CHECK(refusal(repository.path).empty());
}

TEST_CASE("objects borrowed from elsewhere need trust by name, and are then listed") {
  const Repository lender;
  const Repository repository;
  const std::string shared = repository.scratch.path() + "/shared";
  git(repository.scratch.path(), {"clone", "-q", "--shared", lender.path, shared});
  CHECK(refusal(shared) == "worktree-alternates-foreign");
  const Worktree worktree = open_worktree(shared, {false, true, {}}).value();
  CHECK(worktree.object_stores ==
        std::vector<std::string>{shared + "/.git/objects", lender.path + "/.git/objects"});
}

TEST_CASE("repositories that this host cannot handle say so") {
  const Repository repository;
  SECTION("a later format") {
    git(repository.path, {"config", "core.repositoryformatversion", "2"});
    CHECK(refusal(repository.path) == "worktree-unsupported");
  }
  SECTION("an unknown extension") {
    git(repository.path, {"config", "core.repositoryformatversion", "1"});
    git(repository.path, {"config", "extensions.flux", "true"});
    CHECK(refusal(repository.path) == "worktree-unsupported");
  }
  SECTION("a partial clone") {
    git(repository.path, {"config", "remote.origin.promisor", "true"});
    CHECK(refusal(repository.path) == "worktree-unsupported");
  }
}

TEST_CASE("an unborn branch, a detached head, packed refs and sha256 are read") {
  const Scratch scratch;
  git(scratch.path(), {"init", "-q", "-b", "start"});
  CHECK(read_head(open_worktree(scratch.path()).value()).value() == Head{"refs/heads/start", ""});
  const Repository repository;
  git(repository.path, {"pack-refs", "--all"});
  CHECK(read_head(repository.open()).value() == Head{"refs/heads/main", repository.head()});
  git(repository.path, {"checkout", "-q", "--detach"});
  CHECK(read_head(repository.open()).value() == Head{"", repository.head()});
  const Repository wide({"--object-format=sha256"});
  CHECK(wide.open().object_format == "sha256");
  CHECK(read_head(wide.open()).value().oid.size() == 64);
}

TEST_CASE("a name with a line feed, an escape or no UTF-8 is a path like any other") {
  const Scratch scratch;
  for (const std::string name : {"line\nfeed", "esc\x1b[31m", "bytes\xff\xfe"}) {
    const std::string path = scratch.path() + "/" + name;
    fs::create_directory(path);
    git(path, {"init", "-q"});
    CHECK(open_worktree(path).value().root == path);
  }
}

}  // namespace
}  // namespace hitchrail::workspace::test
