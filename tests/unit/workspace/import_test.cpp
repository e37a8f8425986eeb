#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

void prepare(const Repository& repository) {
  auto out = prepare_private_git(repository.open(), repository.attempt_fd.get(), repository.attempt);
  if (out.has_error()) {
    FAIL(told(out));
  }
}

ImportReport imported(const Repository& repository, CommitPolicy policy = CommitPolicy::allowed,
                      const GitRunner& runner = direct_git()) {
  auto report =
      import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt, policy, runner);
  if (report.has_error()) {
    FAIL(told(report));
  }
  return report.value();
}

std::string text(const std::vector<RefReport>& refs) {
  std::string out;
  for (const RefReport& ref : refs) {
    out += ref.ref + (ref.reason.empty() ? "" : ":" + ref.reason) + " ";
  }
  return out;
}

void commit_in_run(const Repository& repository, const std::string& path, const std::string& bytes) {
  write(repository.path + "/" + path, bytes);
  git_in_run(repository, {"add", path});
  git_in_run(repository, {"commit", "-q", "-m", "run: " + path});
}

// What an operator sees afterwards: nothing of ours left over, nothing staged by surprise.
void check_clean(const Repository& repository) {
  CHECK(git(repository.path, {"status", "--porcelain"}).empty());
  CHECK(git_ok(repository.path, {"fsck", "--strict"}));
  for (const auto& entry : fs::directory_iterator(repository.path + "/.git")) {
    INFO(entry.path().string());
    CHECK(entry.path().filename().string().find("hitchrail") == std::string::npos);
    CHECK(entry.path().extension() != ".lock");
  }
}

TEST_CASE("commits of the run arrive on the branch, with their index") {
  const Repository repository;
  prepare(repository);
  const std::string before = repository.head();
  commit_in_run(repository, "one.txt", "first\n");
  fs::remove(repository.path + "/three.txt");
  git_in_run(repository, {"rm", "-q", "--cached", "three.txt"});
  commit_in_run(repository, "deep/new.txt", "second\n");
  const std::string tip = git_in_run(repository, {"rev-parse", "HEAD"});
  const ImportReport report = imported(repository);
  CHECK(text(report.imported) == "refs/heads/main index ");
  CHECK(report.imported.at(0).from == before);
  CHECK(report.imported.at(0).to == tip);
  CHECK(report.not_imported.empty());
  CHECK_FALSE(report.keep_private);
  CHECK(repository.head() == tip);
  CHECK(git(repository.path, {"log", "--format=%s", before + "..HEAD"}) == "run: deep/new.txt\nrun: one.txt");
  check_clean(repository);
}

TEST_CASE("the import works in the real boundary, of native and of a linked worktree") {
  const Repository repository;
  SECTION("plain") {
    prepare(repository);
    commit_in_run(repository, "one.txt", "confined\n");
    CHECK(text(imported(repository, CommitPolicy::allowed, confined_git()).imported) ==
          "refs/heads/main index ");
    check_clean(repository);
  }
  SECTION("without hooks and info") {
    fs::remove_all(repository.path + "/.git/hooks");
    fs::remove_all(repository.path + "/.git/info");
    prepare(repository);
    commit_in_run(repository, "one.txt", "confined\n");
    CHECK(text(imported(repository, CommitPolicy::allowed, confined_git()).imported) ==
          "refs/heads/main index ");
    check_clean(repository);
  }
  SECTION("linked") {
    const std::string linked = repository.scratch.path() + "/linked";
    git(repository.path, {"worktree", "add", "-q", linked, "-b", "side"});
    const Worktree worktree = open_worktree(linked).value();
    REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
    write(linked + "/one.txt", "in the linked worktree\n");
    git(linked, {"--git-dir=" + repository.attempt + "/git", "--work-tree=" + linked, "commit", "-q", "-a",
                 "-m", "x"});
    const std::string main = repository.head();
    auto report = import_commits(worktree, repository.attempt_fd.get(), repository.attempt,
                                 CommitPolicy::required, confined_git());
    if (report.has_error()) {
      FAIL(told(report));
    }
    CHECK(text(report.value().imported) == "refs/heads/side index ");
    CHECK(git(linked, {"log", "--format=%s", "-1"}) == "x");
    CHECK(git(linked, {"status", "--porcelain"}).empty());
    CHECK(repository.head("main") == main);
    check_clean(repository);
  }
}

TEST_CASE("a run without commits and staging changes nothing, and runs no git at all") {
  const Repository repository;
  prepare(repository);
  write(repository.path + "/one.txt", "only in the worktree\n");
  const std::string index = read(repository.path + "/.git/index");
  const GitRunner never = [](const GitCall&) -> Result<GitOutcome> {
    return Error{ErrorClass::internal, "git-was-run", "", "", "", ""};
  };
  const ImportReport report = imported(repository, CommitPolicy::allowed, never);
  CHECK(report.imported.empty());
  CHECK(report.not_imported.empty());
  CHECK(read(repository.path + "/.git/index") == index);
}

TEST_CASE("what the run only staged is staged for the operator") {
  const Repository repository;
  prepare(repository);
  write(repository.path + "/new.txt", "staged\n");
  git_in_run(repository, {"add", "new.txt"});
  CHECK(text(imported(repository).imported) == "index ");
  CHECK(git(repository.path, {"status", "--porcelain"}) == "A  new.txt");
  CHECK(git(repository.path, {"show", ":new.txt"}) == "staged");
}

TEST_CASE("commits are not imported when the policy forbids them, and the private directory is kept") {
  const Repository repository;
  prepare(repository);
  const std::string before = repository.head();
  commit_in_run(repository, "one.txt", "x\n");
  const ImportReport report = imported(repository, CommitPolicy::forbidden);
  CHECK(text(report.not_imported) == "refs/heads/main:forbidden index:forbidden ");
  CHECK(report.keep_private);
  CHECK(repository.head() == before);
}

TEST_CASE("what was not imported can be fetched, and only objects and ids of the run are read for it") {
  const Repository repository;
  prepare(repository);
  write(repository.path + "/one.txt", "amended\n");
  git_in_run(repository, {"commit", "-q", "-a", "--amend", "-m", "amended"});
  const std::string tip = git_in_run(repository, {"rev-parse", "HEAD"});
  write(repository.attempt + "/git/config", "[core]\n\trepositoryformatversion = 99\n");
  REQUIRE(text(imported(repository).not_imported) == "refs/heads/main:diverged index:diverged ");
  git(repository.path, {"fetch", "-q", repository.attempt + "/git-kept", "main:refs/hitchrail/run"});
  CHECK(repository.head("refs/hitchrail/run") == tip);
  CHECK(git(repository.path, {"show", "refs/hitchrail/run:one.txt"}) == "amended");
  CHECK(git_ok(repository.path, {"fsck", "--strict"}));
  // Mended, and imported after all: nothing is kept any more.
  git(repository.path, {"update-ref", "refs/hitchrail/run", "HEAD"});
  write(repository.attempt + "/git/refs/heads/main", repository.head() + "\n");
  fs::copy_file(repository.attempt + "/git-base/index", repository.attempt + "/git/index",
                fs::copy_options::overwrite_existing);
  CHECK_FALSE(imported(repository).keep_private);
  CHECK_FALSE(exists(repository.attempt + "/git-kept"));
}

TEST_CASE("only a fast-forward of the branch that was checked out is imported") {
  const Repository repository;
  prepare(repository);
  const std::string before = repository.head();
  SECTION("history rewritten by the run") {
    write(repository.path + "/one.txt", "amended\n");
    git_in_run(repository, {"commit", "-q", "-a", "--amend", "-m", "amended"});
    CHECK(text(imported(repository).not_imported) == "refs/heads/main:diverged index:diverged ");
  }
  SECTION("the operator committed meanwhile") {
    commit_in_run(repository, "one.txt", "x\n");
    git(repository.path, {"commit", "-q", "--allow-empty", "-m", "operator"});
    const std::string theirs = repository.head();
    CHECK(text(imported(repository).not_imported) == "refs/heads/main:branch-moved index:branch-moved ");
    CHECK(repository.head() == theirs);
    return;
  }
  SECTION("the operator switched branches meanwhile") {
    commit_in_run(repository, "one.txt", "x\n");
    git(repository.path, {"symbolic-ref", "HEAD", "refs/heads/other"});
    CHECK(text(imported(repository).not_imported) ==
          "refs/heads/main:branch-switched index:branch-switched ");
    CHECK(repository.head("main") == before);
    return;
  }
  SECTION("another branch and a tag of the run") {
    git_in_run(repository, {"branch", "extra", "HEAD~1"});
    git_in_run(repository, {"tag", "v9"});
    const ImportReport report = imported(repository);
    CHECK(text(report.not_imported) == "refs/heads/extra:other-ref refs/tags/v9:other-ref ");
    CHECK(report.keep_private);
    CHECK_FALSE(git_ok(repository.path, {"rev-parse", "--verify", "-q", "extra"}));
  }
  SECTION("the run went on on a branch of its own") {
    git_in_run(repository, {"checkout", "-q", "-b", "feature"});
    commit_in_run(repository, "one.txt", "x\n");
    const ImportReport report = imported(repository);
    CHECK(report.imported.empty());
    CHECK(text(report.not_imported) == "refs/heads/feature:other-ref ");
  }
  CHECK(repository.head() == before);
}

TEST_CASE("the operator's own staging during the run is kept, a double change is a conflict") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "one.txt", "by the run\n");
  SECTION("other files") {
    write(repository.path + "/operator.txt", "mine\n");
    git(repository.path, {"add", "operator.txt"});
    CHECK(text(imported(repository).imported) == "refs/heads/main index ");
    CHECK(git(repository.path, {"status", "--porcelain"}) == "A  operator.txt");
  }
  SECTION("a refreshed index is the same index") {
    ::sleep(1);
    write(repository.path + "/three.txt", "three\n");
    const std::string before = read(repository.path + "/.git/index");
    git(repository.path, {"status"});
    CHECK(read(repository.path + "/.git/index") != before);
    CHECK(text(imported(repository).imported) == "refs/heads/main index ");
    check_clean(repository);
  }
  SECTION("the same file") {
    git(repository.path,
        {"update-index", "--cacheinfo", "100644," + repository.head("HEAD:three.txt") + ",one.txt"});
    const std::string before = repository.head();
    CHECK(text(imported(repository).not_imported) == "refs/heads/main:index-conflict index:index-conflict ");
    CHECK(repository.head() == before);
  }
}

TEST_CASE("detached heads, unborn branches and sha256 are imported alike") {
  SECTION("detached") {
    const Repository repository;
    git(repository.path, {"checkout", "-q", "--detach"});
    prepare(repository);
    commit_in_run(repository, "one.txt", "x\n");
    CHECK(text(imported(repository).imported) == "HEAD index ");
    CHECK(git(repository.path, {"log", "-1", "--format=%s"}) == "run: one.txt");
    check_clean(repository);
  }
  SECTION("unborn") {
    const Repository repository;
    git(repository.path, {"checkout", "-q", "--orphan", "fresh"});
    git(repository.path, {"rm", "-r", "-q", "--cached", "."});
    prepare(repository);
    git_in_run(repository, {"add", "."});
    git_in_run(repository, {"commit", "-q", "-m", "root"});
    CHECK(text(imported(repository).imported) == "refs/heads/fresh index ");
    CHECK(git(repository.path, {"rev-list", "--count", "HEAD"}) == "1");
    check_clean(repository);
  }
  SECTION("sha256") {
    const Repository repository({"--object-format=sha256"});
    prepare(repository);
    commit_in_run(repository, "one.txt", "x\n");
    CHECK(text(imported(repository).imported) == "refs/heads/main index ");
    check_clean(repository);
  }
}

TEST_CASE("more than a hundred objects arrive as one pack") {
  const Repository repository;
  prepare(repository);
  for (int i = 0; i < 150; ++i) {
    write(repository.path + "/many/" + std::to_string(i), "file " + std::to_string(i) + "\n");
  }
  git_in_run(repository, {"add", "."});
  git_in_run(repository, {"commit", "-q", "-m", "many"});
  CHECK(text(imported(repository).imported) == "refs/heads/main index ");
  CHECK(fs::directory_iterator(repository.path + "/.git/objects/pack") != fs::directory_iterator());
  check_clean(repository);
}

TEST_CASE("killed at any git call and run again, the import comes to the same end") {
  std::string tip;
  for (int deadly = 0;; ++deadly) {
    const Repository repository;
    prepare(repository);
    commit_in_run(repository, "one.txt", "x\n");
    write(repository.path + "/staged.txt", "staged\n");
    git_in_run(repository, {"add", "staged.txt"});
    tip = git_in_run(repository, {"rev-parse", "HEAD"});
    int calls = 0;
    bool died = false;
    // Before the call, and after it: the work of the call was done, its answer was lost.
    const bool after = deadly % 2 == 1;
    const GitRunner dying = [&](const GitCall& call) -> Result<GitOutcome> {
      const bool now = calls++ == deadly / 2;
      if (now && after) {
        (void)direct_git()(call);
      }
      if (now) {
        died = true;
        return Error{ErrorClass::internal, "killed", "", "", "", ""};
      }
      return direct_git()(call);
    };
    const auto first = import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt,
                                      CommitPolicy::allowed, dying);
    if (!died) {
      CHECK(deadly >= 16);  // it has that many steps at least
      break;
    }
    INFO("git call " << deadly / 2 << (after ? " after" : " before"));
    CHECK(code(first) == "killed");
    CHECK(text(imported(repository).imported) == "refs/heads/main index ");
    CHECK(repository.head() == tip);
    CHECK(git(repository.path, {"status", "--porcelain"}) == "A  staged.txt");
    CHECK(text(imported(repository).not_imported).empty());
    CHECK(git(repository.path, {"status", "--porcelain"}) == "A  staged.txt");
  }
}

TEST_CASE("killed by SIGKILL at a random moment and run again, the import comes to the same end") {
  using Clock = std::chrono::steady_clock;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::int64_t whole = 0;  // how long one takes, microseconds
  for (int round = 0; round <= 12; ++round) {
    const Repository repository;
    prepare(repository);
    commit_in_run(repository, "one.txt", "x\n");
    const std::string tip = git_in_run(repository, {"rev-parse", "HEAD"});
    (void)confined_git();  // made before the fork
    const auto begun = Clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      const auto report = import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt,
                                         CommitPolicy::allowed, confined_git());
      ::_exit(report.has_value() ? 0 : 1);
    }
    const std::int64_t pause =
        round == 0 ? -1 : std::uniform_int_distribution<std::int64_t>(0, whole * 11 / 10)(random);
    if (pause >= 0) {
      ::usleep(static_cast<useconds_t>(pause));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (round == 0) {
      REQUIRE(status == 0);
      whole = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun).count();
    }
    INFO("seed " << seed << ", round " << round << ", killed after " << pause << " us of " << whole);
    const ImportReport again = imported(repository, CommitPolicy::allowed, confined_git());
    CHECK(text(again.imported) == "refs/heads/main index ");
    CHECK(again.not_imported.empty());
    CHECK(repository.head() == tip);
    check_clean(repository);
  }
}

TEST_CASE(
    "locks of a git that was killed while it moved the branch are removed, older ones are the operator's") {
  for (const bool ours : {true, false}) {
    const Repository repository;
    prepare(repository);
    commit_in_run(repository, "one.txt", "x\n");
    const std::string tip = git_in_run(repository, {"rev-parse", "HEAD"});
    const std::string before = repository.head();
    const std::string head = repository.path + "/.git/HEAD.lock";
    const std::string branch = repository.path + "/.git/refs/heads/main.lock";
    const std::string mark = repository.attempt + "/ref-update";
    for (const std::string& path :
         ours ? std::vector<std::string>{mark, head, branch} : std::vector<std::string>{head, branch, mark}) {
      ::usleep(20'000);  // the kernel's clock for files goes in steps
      write(path, "");
    }
    const ImportReport report = imported(repository);
    CHECK(repository.head() == (ours ? tip : before));
    CHECK(fs::exists(head) == !ours);
    CHECK(fs::exists(branch) == !ours);
    CHECK(text(report.not_imported).empty() == ours);
    CHECK_FALSE(fs::exists(mark));
  }
}

TEST_CASE("what root imports for another owner's repository belongs to that owner") {
  const Repository repository;
  const uid_t owner = ::geteuid() == 0 ? 12345 : ::geteuid();
  const auto give = [&](const std::string& path) {
    if (::geteuid() == 0) {
      REQUIRE(::lchown(path.c_str(), owner, owner) == 0);
      for (const auto& entry : fs::recursive_directory_iterator(path)) {
        REQUIRE(::lchown(entry.path().c_str(), owner, owner) == 0);
      }
    }
  };
  give(repository.path);
  const OpenOptions trust{true, false, {}};
  const Worktree worktree = repository.open(trust);
  const Baseline baseline = capture_baseline(worktree, confined_git()).value();
  REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  write(repository.path + "/one.txt", "x\n");
  git_in_run(repository, {"commit", "-q", "-a", "-m", "run"});
  give(repository.attempt + "/git");
  give(repository.path);
  const auto evidence =
      collect_evidence(worktree, baseline, repository.attempt_fd.get(), repository.attempt, confined_git());
  REQUIRE(told(evidence).empty());
  CHECK(evidence.value().commits.size() == 1);
  const auto report = import_commits(worktree, repository.attempt_fd.get(), repository.attempt,
                                     CommitPolicy::allowed, confined_git());
  REQUIRE(told(report).empty());
  CHECK(text(report.value().imported) == "refs/heads/main index ");
  for (const auto& entry : fs::recursive_directory_iterator(repository.path)) {
    struct stat st {};
    REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
    INFO(entry.path().string());
    CHECK(st.st_uid == owner);
  }
}

TEST_CASE("a lock that a killed import left behind is known as our own") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "one.txt", "x\n");
  // The state between taking the lock and replacing the index: two names of the finished file.
  std::string scratch;
  const GitRunner watching = [&](const GitCall& call) -> Result<GitOutcome> {
    for (const auto& [name, value] : call.env) {
      if (name == "GIT_INDEX_FILE" && value.find("hitchrail.index.") != std::string::npos) {
        scratch = value;
      }
    }
    auto outcome = direct_git()(call);
    if (call.args.at(0) == "update-index") {
      return Error{ErrorClass::internal, "killed", "", "", "", ""};
    }
    return outcome;
  };
  CHECK(code(import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt,
                            CommitPolicy::allowed, watching)) == "killed");
  REQUIRE(exists(scratch));
  fs::create_hard_link(scratch, repository.path + "/.git/index.lock");
  CHECK(text(imported(repository).imported) == "refs/heads/main index ");
  check_clean(repository);
}

TEST_CASE("the operator's own lock is respected and reported") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "one.txt", "x\n");
  write(repository.path + "/.git/index.lock", "");
  const ImportReport report = imported(repository);
  CHECK(text(report.imported) == "refs/heads/main ");
  CHECK(text(report.not_imported) == "index:index-locked ");
  CHECK(exists(repository.path + "/.git/index.lock"));
  fs::remove(repository.path + "/.git/index.lock");
  CHECK(text(imported(repository).imported) == "refs/heads/main index ");
  check_clean(repository);
}

TEST_CASE("damaged or hostile private directories import nothing and are reported") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "one.txt", "x\n");
  const std::string before = repository.head();
  const std::string tip = git_in_run(repository, {"rev-parse", "HEAD"});
  SECTION("a missing blob") {
    const std::string blob = git_in_run(repository, {"rev-parse", "HEAD:one.txt"});
    fs::remove(repository.attempt + "/git/objects/" + blob.substr(0, 2) + "/" + blob.substr(2));
    CHECK(text(imported(repository).not_imported) ==
          "refs/heads/main:objects-invalid index:objects-invalid ");
  }
  SECTION("a branch that names no commit") {
    write(repository.attempt + "/git/refs/heads/main", std::string(40, '1') + "\n");
    CHECK(text(imported(repository).not_imported) == "refs/heads/main:diverged index:diverged ");
  }
  SECTION("a branch that names a blob") {
    write(repository.attempt + "/git/refs/heads/main", repository.head("HEAD:one.txt") + "\n");
    CHECK(text(imported(repository).not_imported) == "refs/heads/main:diverged index:diverged ");
  }
  SECTION("a HEAD that is a link, a FIFO or garbage") {
    fs::remove(repository.attempt + "/git/HEAD");
    SECTION("link") {
      fs::create_symlink("/etc/passwd", repository.attempt + "/git/HEAD");
    }
    SECTION("fifo") {
      REQUIRE(::mkfifo((repository.attempt + "/git/HEAD").c_str(), 0600) == 0);
    }
    SECTION("garbage") {
      write(repository.attempt + "/git/HEAD", "\xff\x00");
    }
    CHECK(text(imported(repository).not_imported) == "HEAD:private-damaged ");
  }
  SECTION("a broken index") {
    write(repository.attempt + "/git/index", "DIRC garbage");
    const ImportReport report = imported(repository);
    CHECK(text(report.not_imported) == "index:index-unreadable ");
    CHECK(repository.head() == tip);
    return;
  }
  CHECK(repository.head() == before);
  CHECK(imported(repository).keep_private);
}

TEST_CASE("protected names in commits or the index of a run are never imported") {
  const Repository repository;
  write(repository.path + "/.claude/settings.json", "{}\n");
  git(repository.path, {"add", "."});
  git(repository.path, {"commit", "-q", "-m", "settings"});
  prepare(repository);
  const std::string before = repository.head();
  const std::string blob = git_in_run(repository, {"rev-parse", "HEAD:three.txt"});
  const auto stage = [&](const std::string& path) {
    git_in_run(repository, {"update-index", "--add", "--cacheinfo", "100644," + blob + "," + path});
  };
  const auto commit = [&] { git_in_run(repository, {"commit", "-q", "-m", "x", "--no-verify"}); };
  std::string expected = "refs/heads/main:protected-name-committed index:protected-name-committed ";
  SECTION("added") {
    const std::string path =
        GENERATE(".claude/hooks", ".agents", ".codex/deep/x", ".hitchrail/x", ".CODEX/x");
    stage(path);
    commit();
  }
  SECTION("changed") {
    stage(".claude/settings.json");
    commit();
  }
  SECTION("removed") {
    git_in_run(repository, {"rm", "-q", "--cached", ".claude/settings.json"});
    commit();
  }
  SECTION("staged only") {
    stage(".codex/config.toml");
    expected = "index:protected-name-committed ";
  }
  SECTION("in a commit that a later one takes back") {
    stage(".codex/config.toml");
    commit();
    git_in_run(repository, {"rm", "-q", "--cached", ".codex/config.toml"});
    commit();
    expected = "refs/heads/main:protected-name-committed ";
  }
  const ImportReport report = imported(repository);
  CHECK(text(report.not_imported) == expected);
  CHECK(report.imported.empty());
  CHECK(report.keep_private);
  CHECK(repository.head() == before);
  check_clean(repository);
}

TEST_CASE("names that only look like protected ones, or lie deeper, are imported") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "src/.claude/settings.json", "{}\n");
  commit_in_run(repository, ".claude.md", "x\n");
  commit_in_run(repository, ".gitignore", "build/\n");
  CHECK(text(imported(repository).imported) == "refs/heads/main index ");
}

TEST_CASE("objects that git's checks refuse stay outside") {
  const Repository repository;
  prepare(repository);
  // A tree with an entry named ".git": no git of today makes it, an attacker's tool does.
  write(repository.scratch.path() + "/x", "x");
  const std::string blob = git_in_run(repository, {"hash-object", "-w", repository.scratch.path() + "/x"});
  std::string raw;
  for (std::size_t i = 0; i < blob.size(); i += 2) {
    raw += static_cast<char>(std::stoi(blob.substr(i, 2), nullptr, 16));
  }
  write(repository.scratch.path() + "/tree", std::string("100644 .git") + '\0' + raw);
  const std::string tree = git_in_run(
      repository, {"hash-object", "-w", "-t", "tree", "--literally", repository.scratch.path() + "/tree"});
  const std::string commit = git_in_run(repository, {"commit-tree", tree, "-p", "HEAD", "-m", "evil"});
  git_in_run(repository, {"update-ref", "refs/heads/main", commit});
  CHECK(text(imported(repository).not_imported) == "refs/heads/main:objects-invalid ");
  CHECK_FALSE(git_ok(repository.path, {"cat-file", "-e", commit}));
}

TEST_CASE("another repository in the worktree's place is not touched") {
  const Repository repository;
  prepare(repository);
  commit_in_run(repository, "one.txt", "x\n");
  fs::rename(repository.path, repository.scratch.path() + "/old");
  git(repository.scratch.path(), {"clone", "-q", "old", "repo"});
  CHECK(code(import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt,
                            CommitPolicy::allowed, direct_git())) == "worktree-changed");
}

TEST_CASE("an import report is a document") {
  ImportReport report;
  report.imported = {{"refs/heads/main", "a", "b", ""}};
  report.not_imported = {{"refs/tags/\xff", "", "c", "other-ref"}};
  report.keep_private = true;
  CHECK(
      json::write(report.to_json()) ==
      R"({"imported":[{"ref":"refs/heads/main","from":"a","to":"b"}],)"
      R"("notImported":[{"ref":{"base64":"cmVmcy90YWdzL/8="},"to":"c","reason":"other-ref"}],"privateKept":true})");
}

}  // namespace
}  // namespace hitchrail::workspace::test
