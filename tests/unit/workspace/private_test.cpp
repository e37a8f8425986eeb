#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

PrivateGit prepared(const Repository& repository, const PrivateGitOptions& options = {}) {
  auto out = prepare_private_git(repository.open(), repository.attempt_fd.get(), repository.attempt, options);
  if (out.has_error()) {
    FAIL(told(out));
  }
  return out.value();
}

TEST_CASE("git answers in the private directory as in the real one") {
  const Repository repository;
  git(repository.path, {"tag", "-a", "-m", "v1", "v1"});
  git(repository.path, {"branch", "side", "HEAD~1"});
  git(repository.path, {"pack-refs", "--all"});
  git(repository.path, {"branch", "later"});
  write(repository.path + "/one.txt", "changed\n");
  write(repository.path + "/new.txt", "new\n");
  git(repository.path, {"add", "new.txt"});
  write(repository.path + "/.git/info/exclude", "ignored\n");
  write(repository.path + "/ignored", "x");
  prepared(repository);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"status", "--porcelain=v2", "--branch"},
        {"log", "--format=%H %s"},
        {"for-each-ref"},
        {"ls-files", "--stage"},
        {"rev-parse", "v1^{commit}"},
        {"diff", "HEAD"}}) {
    CHECK(git_in_run(repository, args) == git(repository.path, args));
  }
  CHECK(git_ok(repository.path, {"--git-dir=" + repository.attempt + "/git", "fsck", "--strict"}));
}

TEST_CASE("add and commit work inside, and the real repository does not notice") {
  const Repository repository;
  prepared(repository);
  const std::string before = repository.head();
  const std::string index = read(repository.path + "/.git/index");
  write(repository.path + "/one.txt", "by the run\n");
  git_in_run(repository, {"add", "one.txt"});
  git_in_run(repository, {"commit", "-q", "-m", "by the run"});
  CHECK(git_in_run(repository, {"rev-parse", "HEAD~1"}) == before);
  CHECK(repository.head() == before);
  CHECK(read(repository.path + "/.git/index") == index);
  CHECK_FALSE(git_ok(repository.path, {"cat-file", "-e", git_in_run(repository, {"rev-parse", "HEAD"})}));
}

TEST_CASE("the copy of the index keeps its time, so that a change in the same second is seen") {
  const Repository repository;
  struct stat real {};
  struct stat copy {};
  REQUIRE(::stat((repository.path + "/.git/index").c_str(), &real) == 0);
  prepared(repository);
  REQUIRE(::stat((repository.attempt + "/git/index").c_str(), &copy) == 0);
  CHECK(real.st_mtim.tv_sec == copy.st_mtim.tv_sec);
  CHECK(real.st_mtim.tv_nsec == copy.st_mtim.tv_nsec);
}

TEST_CASE("nothing of the real directory that can run or point is copied") {
  const Repository repository;
  write(repository.path + "/.git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
  ::chmod((repository.path + "/.git/hooks/pre-commit").c_str(), 0755);
  git(repository.path, {"config", "core.fsmonitor", "/bin/false"});
  git(repository.path, {"config", "filter.evil.clean", "/bin/false"});
  git(repository.path, {"config", "remote.origin.url", "https://user:secret@example.org/x"});
  git(repository.path, {"config", "core.sshCommand", "/bin/false"});
  git(repository.path, {"config", "alias.st", "!/bin/false"});
  git(repository.path, {"config", "include.path", "/etc/hostname"});
  git(repository.path, {"config", "core.autocrlf", "input"});
  git(repository.path, {"config", "user.name", "Repo \"Name\""});
  const PrivateGit out = prepared(repository);
  const std::string config = read(repository.attempt + "/git/config");
  for (const char* word : {"secret", "/bin/false", "include", "hooks", "url"}) {
    INFO(word);
    CHECK(config.find(word) == std::string::npos);
  }
  CHECK(git_in_run(repository, {"config", "core.autocrlf"}) == "input");
  CHECK(out.user_name == "Repo \"Name\"");
  CHECK_FALSE(exists(repository.attempt + "/git/hooks"));
}

TEST_CASE("where the run sees the objects is what its alternates say") {
  const Repository repository;
  PrivateGitOptions options;
  options.objects_inside = "/hitchrail/objects";
  const PrivateGit out = prepared(repository, options);
  CHECK(read(repository.attempt + "/git/objects/info/alternates") == "\"/hitchrail/objects\"\n");
  CHECK(read(repository.attempt + "/git-base/objects/info/alternates") ==
        "\"" + repository.path + "/.git/objects\"\n");
  CHECK(out.directory == repository.attempt + "/git");
  CHECK(out.objects == repository.path + "/.git/objects");
  CHECK(out.readable.empty());
}

TEST_CASE("every kind of repository gets a private directory that works") {
  SECTION("unborn") {
    const Scratch scratch;
    Repository repository;
    git(repository.path, {"checkout", "-q", "--orphan", "fresh"});
    prepared(repository);
    CHECK(git_in_run(repository, {"symbolic-ref", "HEAD"}) == "refs/heads/fresh");
    git_in_run(repository, {"commit", "-q", "-m", "root"});
    CHECK(git_in_run(repository, {"rev-list", "--count", "HEAD"}) == "1");
  }
  SECTION("detached") {
    const Repository repository;
    git(repository.path, {"checkout", "-q", "--detach"});
    prepared(repository);
    CHECK(git_in_run(repository, {"rev-parse", "HEAD"}) == repository.head());
    CHECK_FALSE(
        git_ok(repository.path, {"--git-dir=" + repository.attempt + "/git", "symbolic-ref", "-q", "HEAD"}));
  }
  SECTION("sha256") {
    const Repository repository({"--object-format=sha256"});
    prepared(repository);
    CHECK(git_in_run(repository, {"rev-parse", "HEAD"}) == repository.head());
  }
  SECTION("shallow") {
    const Repository origin;
    Repository repository;
    fs::remove_all(repository.path);
    git(repository.scratch.path(), {"clone", "-q", "--depth=1", "file://" + origin.path, "repo"});
    prepared(repository);
    CHECK(git_in_run(repository, {"log", "--format=%H"}) == git(repository.path, {"log", "--format=%H"}));
    CHECK(git_in_run(repository, {"symbolic-ref", "refs/remotes/origin/HEAD"}) == "refs/remotes/origin/main");
  }
  SECTION("sparse") {
    const Repository repository;
    git(repository.path, {"sparse-checkout", "set", "--no-cone", "/one.txt"});
    prepared(repository);
    CHECK(git_in_run(repository, {"status", "--porcelain"}).empty());
  }
  SECTION("a split index") {
    const Repository repository;
    git(repository.path, {"update-index", "--split-index"});
    prepared(repository);
    CHECK(git_in_run(repository, {"status", "--porcelain"}).empty());
  }
}

TEST_CASE("a head that moved since the baseline is refused") {
  const Repository repository;
  PrivateGitOptions options;
  options.expected_head = read_head(repository.open()).value();
  git(repository.path, {"commit", "-q", "--allow-empty", "-m", "meanwhile"});
  CHECK(code(prepare_private_git(repository.open(), repository.attempt_fd.get(), repository.attempt,
                                 options)) == "worktree-changed");
}

TEST_CASE("preparing again starts afresh") {
  const Repository repository;
  prepared(repository);
  write(repository.attempt + "/git/planted", "x");
  prepared(repository);
  CHECK_FALSE(exists(repository.attempt + "/git/planted"));
}

TEST_CASE("what root prepares for another owner's worktree belongs to that owner") {
  const Repository repository;
  if (::geteuid() == 0) {
    for (const auto& entry : fs::recursive_directory_iterator(repository.path)) {
      REQUIRE(::lchown(entry.path().c_str(), 12345, 12345) == 0);
    }
    REQUIRE(::chown(repository.path.c_str(), 12345, 12345) == 0);
    const Worktree worktree = open_worktree(repository.path, {true, false, {}}).value();
    REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  } else {
    prepared(repository);
  }
  const uid_t owner = ::geteuid() == 0 ? 12345 : ::geteuid();
  int seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(repository.attempt)) {
    struct stat st {};
    REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
    INFO(entry.path().string());
    CHECK(st.st_uid == owner);
    CHECK((st.st_mode & 077) == 0);
    ++seen;
  }
  CHECK(seen > 20);
}

}  // namespace
}  // namespace hitchrail::workspace::test
