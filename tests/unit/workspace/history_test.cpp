// What a run may call its own: commits and changes, whatever it does to look busy.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

// A repository with commits on another branch: `other` is one ahead of main, `apart` has a history of its
// own.
struct Launch {
  Repository repository;
  Baseline baseline;

  void begin() {
    git(repository.path, {"checkout", "-q", "-b", "other"});
    write(repository.path + "/other.txt", "other\n");
    git(repository.path, {"add", "."});
    git(repository.path, {"commit", "-q", "-m", "other"});
    git(repository.path, {"checkout", "-q", "main"});
    start();
  }
  void start() {
    const Worktree worktree = repository.open();
    auto captured = capture_baseline(worktree, direct_git());
    REQUIRE(captured.has_value());
    PrivateGitOptions options;
    options.expected_head = captured.value().head;
    REQUIRE(
        prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt, options).has_value());
    baseline = captured.value();
    ::usleep(30'000);
  }
  void commit(const std::string& name) const {
    write(repository.path + "/" + name, "by the run\n");
    git_in_run(repository, {"add", name});
    git_in_run(repository, {"commit", "-q", "-m", name});
  }
  [[nodiscard]] Evidence end() const {
    auto evidence = collect_evidence(repository.open(), baseline, repository.attempt_fd.get(),
                                     repository.attempt, direct_git());
    if (evidence.has_error()) {
      FAIL(told(evidence));
    }
    return evidence.value();
  }
};

std::string text(const Evidence& evidence) {
  std::string out;
  for (const ChangedFile& file : evidence.changed) {
    out += file.status + ":" + file.path + (file.verified ? " " : "? ");
  }
  return out;
}

TEST_CASE("history that stood on another ref at launch is nobody's work of this run") {
  Launch launch;
  launch.begin();
  SECTION("fast-forward") {
    git_in_run(launch.repository, {"merge", "-q", "--ff-only", "other"});
  }
  SECTION("reset") {
    git_in_run(launch.repository, {"reset", "-q", "--hard", "other"});
  }
  SECTION("a merge commit of its own on top") {
    git_in_run(launch.repository, {"merge", "-q", "--no-ff", "-m", "merge", "other"});
  }
  SECTION("a commit of its own on top") {
    git_in_run(launch.repository, {"reset", "-q", "--hard", "other"});
    launch.commit("mine.txt");
  }
  const Evidence evidence = launch.end();
  CHECK_FALSE(evidence.head_attributable);
  CHECK(evidence.why_not == "preexisting-history");
  CHECK(evidence.commits.empty());
  const json::Value effects = side_effects_json(evidence, Scopes{{""}}, Scopes{{""}});
  CHECK_FALSE(effects.items().back().get("authorized").as_bool());
}

TEST_CASE("the same without the list, when there were too many to be listed") {
  Launch launch;
  launch.begin();
  launch.baseline.preexisting = Preexisting{false, 0, "", {}};
  git_in_run(launch.repository, {"merge", "-q", "--ff-only", "other"});
  CHECK(launch.end().why_not == "preexisting-history");
}

TEST_CASE("a commit that only a linked worktree's HEAD has is known by the list") {
  Launch launch;
  const std::string linked = launch.repository.scratch.path() + "/linked";
  git(launch.repository.path, {"worktree", "add", "-q", "--detach", linked});
  git(linked, {"commit", "-q", "--allow-empty", "-m", "theirs"});
  const std::string tip = git(linked, {"rev-parse", "HEAD"});
  launch.start();
  git_in_run(launch.repository, {"merge", "-q", "--ff-only", tip});
  CHECK(launch.end().why_not == "preexisting-history");
}

TEST_CASE("another branch, and a branch that goes back, are not the launch's history") {
  Launch launch;
  launch.begin();
  SECTION("switched") {
    git_in_run(launch.repository, {"checkout", "-q", "other"});
    CHECK(launch.end().why_not == "branch-switched");
  }
  SECTION("back") {
    git_in_run(launch.repository, {"reset", "-q", "--hard", "HEAD^"});
    CHECK(launch.end().why_not == "diverged");
  }
  SECTION("an unborn branch that takes over another's history") {
    git(launch.repository.path, {"checkout", "-q", "--orphan", "fresh"});
    launch.start();
    git_in_run(launch.repository, {"reset", "-q", "--hard", "other"});
    CHECK(launch.end().why_not == "preexisting-history");
  }
}

TEST_CASE("a cherry-pick is the run's own commit") {
  Launch launch;
  launch.begin();
  launch.commit("mine.txt");  // on the same parent in the same second it would be the very same commit
  git_in_run(launch.repository,
             {"-c", "user.name=Run", "-c", "user.email=r@example.org", "cherry-pick", "other"});
  const Evidence evidence = launch.end();
  INFO(evidence.why_not);
  CHECK(evidence.head_attributable);
  CHECK(evidence.commits.size() == 2);
  CHECK(text(evidence) == "added:mine.txt added:other.txt ");
}

TEST_CASE("a change of the same size with its time put back is told") {
  Launch launch;
  launch.begin();
  const std::string path = launch.repository.path + "/one.txt";
  struct stat st {};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  write(path, "two, again\n");
  const timespec times[2] = {st.st_atim, st.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  CHECK(text(launch.end()) == "modified:one.txt ");
}

TEST_CASE("touching a file changes nothing") {
  Launch launch;
  launch.begin();
  REQUIRE(::utimensat(AT_FDCWD, (launch.repository.path + "/one.txt").c_str(), nullptr, 0) == 0);
  write(launch.repository.path + "/three.txt", "three\n");
  CHECK(text(launch.end()).empty());
}

TEST_CASE("a file that git was told to assume unchanged is told, as not verified") {
  Launch launch;
  git(launch.repository.path, {"update-index", "--assume-unchanged", "one.txt"});
  launch.start();
  write(launch.repository.path + "/one.txt", "by the run\n");
  CHECK(text(launch.end()) == "modified:one.txt? ");
}

TEST_CASE("what was dirty at launch is told when its kind, mode or content changed, and only then") {
  Launch launch;
  write(launch.repository.path + "/dirty.txt", "/etc/hostname");
  write(launch.repository.path + "/left.txt", "left alone");
  launch.start();
  SECTION("left alone") {
    CHECK(text(launch.end()).empty());
  }
  SECTION("a link with that very text") {
    fs::remove(launch.repository.path + "/dirty.txt");
    fs::create_symlink("/etc/hostname", launch.repository.path + "/dirty.txt");
    CHECK(text(launch.end()) == "untracked:dirty.txt ");
  }
  SECTION("executable") {
    REQUIRE(::chmod((launch.repository.path + "/dirty.txt").c_str(), 0755) == 0);
    CHECK(text(launch.end()) == "untracked:dirty.txt ");
  }
  SECTION("written with the same content") {
    write(launch.repository.path + "/dirty.txt", "/etc/hostname");
    CHECK(text(launch.end()).empty());
  }
}

TEST_CASE("files over the hash bound that nobody touched are known by their stamps") {
  const Repository repository;
  write(repository.path + "/a-large", std::string(100'000, 'x'));
  write(repository.path + "/b-large", std::string(100'000, 'y'));
  ::usleep(150'000);  // a stamp counts when the file had been left alone for a while
  const Worktree worktree = repository.open();
  BaselineLimits limits;
  limits.max_hash_bytes = 1000;
  const Baseline captured = capture_baseline(worktree, direct_git(), limits).value();
  const Baseline baseline =
      baseline_from_json(baseline_json(captured), json::write(baseline_document(captured).value())).value();
  REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  write(repository.path + "/b-large", std::string(100'000, 'z'));
  const Evidence evidence =
      collect_evidence(worktree, baseline, repository.attempt_fd.get(), repository.attempt, direct_git())
          .value();
  CHECK(text(evidence) == "untracked:b-large? ");
}

TEST_CASE("a repository of its own that was there at launch is no change of the run") {
  Launch launch;
  git(launch.repository.path, {"init", "-q", "-b", "main", "inner"});
  write(launch.repository.path + "/inner/file", "x");
  ::usleep(150'000);
  launch.start();
  SECTION("left alone") {
    CHECK(text(launch.end()).empty());
  }
  SECTION("written into") {
    write(launch.repository.path + "/inner/file", "y");
    CHECK(text(launch.end()) == "untracked:inner/? ");
  }
}

TEST_CASE("what the run made: changed, or born where git does not look") {
  Launch launch;
  write(launch.repository.path + "/.gitignore", "build/\n");
  write(launch.repository.path + "/build/old", "old");
  git(launch.repository.path, {"add", ".gitignore"});
  git(launch.repository.path, {"commit", "-q", "-m", "ignore"});
  write(launch.repository.path + "/dirty.txt", "dirty");
  ::usleep(30'000);
  launch.start();
  write(launch.repository.path + "/one.txt", "changed");
  write(launch.repository.path + "/build/new", "new");
  write(launch.repository.path + "/build/old", "old");
  const Evidence evidence = launch.end();
  const Worktree worktree = launch.repository.open();
  const auto made = [&](const char* path) {
    return made_by_run(worktree, launch.baseline, evidence, launch.repository.attempt_fd.get(), path).value();
  };
  CHECK(made("one.txt"));
  CHECK(made("build/new"));
  CHECK_FALSE(made("build/old"));  // written, but not made
  CHECK_FALSE(made("three.txt"));
  CHECK_FALSE(made("dirty.txt"));
  CHECK_FALSE(made("nowhere/at/all"));
  fs::remove(launch.repository.path + "/three.txt");  // made anew with the same content
  write(launch.repository.path + "/three.txt", "three\n");
  CHECK_FALSE(made("three.txt"));
}

TEST_CASE("the last change is the kernel's time of the newest changed file, or of the folder it went from") {
  Launch launch;
  launch.begin();
  const std::int64_t before = launch.baseline.captured_at_ms;
  write(launch.repository.path + "/one.txt", "x");
  const timespec old[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (launch.repository.path + "/one.txt").c_str(), old, 0) == 0);
  const Evidence first = launch.end();
  CHECK(first.last_change_ms >= before);
  ::usleep(30'000);
  fs::remove_all(launch.repository.path + "/dir");
  const Evidence second = launch.end();
  CHECK(second.last_change_ms > first.last_change_ms);
  CHECK(last_change(launch.repository.open(), second) == second.last_change_ms);
}

}  // namespace
}  // namespace hitchrail::workspace::test
