// The launch baseline in every shape a repository can have.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/canonical.hpp"
#include "repository.hpp"
#include "workspace/index_paths.hpp"
#include "workspace/sweep.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

Baseline captured(const Worktree& worktree, const GitRunner& git = direct_git(),
                  const BaselineLimits& limits = {}) {
  auto baseline = capture_baseline(worktree, git, limits);
  if (baseline.has_error()) {
    FAIL(told(baseline));
  }
  return baseline.value();
}

std::string text(const Baseline& baseline) {
  std::string out;
  for (const FileState& file : baseline.files) {
    out += file.status + ":" + file.path +
           (file.worktree_mode.empty() ? "" : "(" + file.worktree_mode + ")") + " ";
  }
  return out;
}

// What git itself says about each path, in the porcelain form.
std::size_t lines_of_git(const std::string& directory) {
  const std::string out =
      git(directory, {"status", "--porcelain", "-uall", "--no-renames", "--ignore-submodules=dirty"});
  return out.empty() ? 0 : static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n')) + 1;
}

TEST_CASE("a sparse checkout has no changes for what it leaves out") {
  const Repository repository;
  git(repository.path, {"sparse-checkout", "set", "--no-cone", "/*.txt"});
  REQUIRE_FALSE(exists(repository.path + "/dir/two.txt"));
  SECTION("nothing was touched") {
    CHECK(text(captured(repository.open(), confined_git())).empty());
  }
  SECTION("a file stands where the checkout left one out") {
    write(repository.path + "/dir/two.txt", "by hand\n");
    CHECK(text(captured(repository.open(), confined_git())) == "modified:dir/two.txt(100644) ");
  }
  SECTION("with a sparse index") {
    git(repository.path, {"sparse-checkout", "set", "--cone", "--sparse-index", "other"});
    write(repository.path + "/one.txt", "x\n");
    const Worktree worktree = repository.open();
    const Baseline baseline = captured(worktree, confined_git());
    CHECK(text(baseline) == "modified:one.txt(100644) ");
    CHECK(baseline_still(worktree, baseline, confined_git()).has_value());
  }
}

TEST_CASE("a split index, old and new index versions are read, and a look at their files needs no git") {
  const Repository repository;
  SECTION("version 4") {
    git(repository.path, {"update-index", "--index-version", "4"});
  }
  SECTION("version 3") {
    write(repository.path + "/later.txt", "x\n");
    git(repository.path, {"add", "-N", "later.txt"});
  }
  SECTION("split") {
    git(repository.path, {"update-index", "--split-index"});
    write(repository.path + "/later.txt", "x\n");
    git(repository.path, {"add", "later.txt"});
  }
  SECTION("sha256, split") {
    const Repository wide({"--object-format=sha256"});
    git(wide.path, {"update-index", "--split-index"});
    PathSet paths;
    CHECK(paths.add_index(wide.open().git_fd->get(), 32));
    paths.close();
    CHECK(paths.folders().size() == 2);
    return;
  }
  const Worktree worktree = repository.open();
  PathSet paths;
  REQUIRE(paths.add_index(worktree.git_fd->get(), 20));
  paths.close();
  std::size_t names = 0;
  for (const PathSet::Folder& folder : paths.folders()) {
    names += folder.names.size();
  }
  CHECK(names >= 3);
  write(repository.path + "/dir/two.txt", "changed\n");
  const Baseline baseline = captured(worktree, confined_git());
  CHECK(baseline.files.size() == lines_of_git(repository.path));
  CHECK(baseline.still->usable);
}

TEST_CASE("an index cut at any length is never read past its end") {
  const Repository repository;
  for (const char* version : {"2", "4"}) {
    git(repository.path, {"update-index", "--index-version", version});
    const std::string whole = read(repository.path + "/.git/index");
    std::string shared;
    std::size_t all = 0;
    REQUIRE(each_index_path(whole, 20, shared, [&](const IndexPath&) { ++all; }));
    CHECK(all == 3);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      std::size_t seen = 0;
      (void)each_index_path(std::string(whole.substr(0, size)), 20, shared,
                            [&](const IndexPath&) { ++seen; });
      CHECK(seen <= all);
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
      (void)each_index_path(damaged, 20, shared, [](const IndexPath&) {});
    }
  }
}

TEST_CASE("a repository with reftables is refused by name") {
  const Repository repository;
  git(repository.path, {"config", "core.repositoryformatversion", "1"});
  git(repository.path, {"config", "extensions.refStorage", "reftable"});
  fs::create_directory(repository.path + "/.git/reftable");
  write(repository.path + "/.git/reftable/tables.list", "0x000000000001-0x000000000002-1.ref\n");
  write(repository.path + "/.git/HEAD", "ref: refs/heads/.invalid\n");
  const auto refused = open_worktree(repository.path);
  CHECK(code(refused) == "worktree-unsupported");
  CHECK(refused.error().detail.find("refstorage") != std::string::npos);
  CHECK_FALSE(refused.error().remedy.empty());
}

TEST_CASE("conflicts, type changes, renames, and files of which git was told something") {
  const Repository repository;
  SECTION("a conflict has our side's blob") {
    git(repository.path, {"checkout", "-q", "-b", "side", "HEAD^"});
    write(repository.path + "/one.txt", "theirs\n");
    git(repository.path, {"commit", "-q", "-a", "-m", "theirs"});
    git(repository.path, {"checkout", "-q", "main"});
    REQUIRE_FALSE(git_ok(repository.path, {"merge", "-q", "side"}));
    const Baseline baseline = captured(repository.open(), confined_git());
    CHECK(text(baseline) == "conflicted:one.txt(100644) ");
    CHECK(baseline.files.at(0).index_blob == repository.head("main:one.txt"));
    CHECK(baseline.preexisting.count == 1);
  }
  SECTION("a file became a link, and one a folder") {
    fs::remove(repository.path + "/one.txt");
    fs::create_symlink("three.txt", repository.path + "/one.txt");
    fs::remove(repository.path + "/three.txt");
    write(repository.path + "/three.txt/inside", "x");
    CHECK(text(captured(repository.open())) ==
          "modified:one.txt(120000) deleted:three.txt untracked:three.txt/inside(100644) ");
  }
  SECTION("a rename is a file that went and one that came") {
    git(repository.path, {"mv", "three.txt", "moved.txt"});
    CHECK(text(captured(repository.open())) == "added:moved.txt(100644) deleted:three.txt ");
  }
  SECTION("a mode") {
    REQUIRE(::chmod((repository.path + "/one.txt").c_str(), 0755) == 0);
    CHECK(text(captured(repository.open())) == "modified:one.txt(100755) ");
  }
  SECTION("intent to add") {
    write(repository.path + "/later.txt", "x\n");
    git(repository.path, {"add", "-N", "later.txt"});
    const Baseline baseline = captured(repository.open());
    CHECK(text(baseline) == "added:later.txt(100644) ");
    CHECK(baseline.files.at(0).worktree_sha256 == sha256_hex("x\n"));
  }
  SECTION("assumed unchanged, and skipped") {
    git(repository.path, {"update-index", "--assume-unchanged", "one.txt"});
    git(repository.path, {"update-index", "--skip-worktree", "three.txt"});
    write(repository.path + "/one.txt", "not looked at\n");
    CHECK(captured(repository.open()).files.size() == lines_of_git(repository.path));
  }
  SECTION("folders that are not tracked, empty ones among them") {
    write(repository.path + "/new/deep/a", "a");
    write(repository.path + "/new/b", "b");
    fs::create_directories(repository.path + "/empty/deep");
    CHECK(text(captured(repository.open())) == "untracked:new/b(100644) untracked:new/deep/a(100644) ");
  }
  SECTION("a repository of its own that is not tracked") {
    git(repository.path, {"init", "-q", "-b", "main", "inner"});
    write(repository.path + "/inner/file", "x");
    CHECK(text(captured(repository.open())) == "untracked:inner/ ");
  }
  SECTION("no index at all") {
    fs::remove(repository.path + "/.git/index");
    CHECK(captured(repository.open()).files.size() == lines_of_git(repository.path));
  }
}

TEST_CASE("a submodule with another commit has that commit's id in its hash") {
  const Repository inner;
  const Repository repository;
  git(repository.path, {"submodule", "--quiet", "add", inner.path, "sub"});
  git(repository.path, {"commit", "-q", "-m", "sub"});
  git(repository.path + "/sub", {"checkout", "-q", "HEAD^"});
  const Baseline baseline = captured(repository.open(), confined_git());
  REQUIRE(text(baseline) == "modified:sub(160000) ");
  CHECK(baseline.files.at(0).worktree_sha256 == sha256_hex(inner.head("HEAD^")));
}

TEST_CASE("names with tabs, quotes, line feeds and invalid UTF-8 go through every part") {
  const Repository repository;
  const std::vector<std::string> names = {"a\tb", "c\nd", "\"e\"", "f\xff\xfe", "g\\h", " i "};
  for (const std::string& name : names) {
    write(repository.path + "/" + name, "tracked");
  }
  git(repository.path, {"add", "."});
  git(repository.path, {"commit", "-q", "-m", "names"});
  for (const std::string& name : names) {
    write(repository.path + "/" + name, name);
  }
  const Worktree worktree = repository.open();
  const Baseline baseline = captured(worktree, confined_git());
  REQUIRE(baseline.files.size() == names.size());
  for (const FileState& file : baseline.files) {
    CHECK(file.worktree_sha256 == sha256_hex(file.path));
  }
  const std::string document = json::write(baseline_document(baseline).value());
  CHECK(baseline_from_json(baseline_json(baseline), document).value().files == baseline.files);
}

TEST_CASE("commits that only other refs reach are listed, sorted and once, with the digest git gives") {
  const Repository repository;
  const auto digest_by_git = [&] {
    std::string commits = git(repository.path, {"rev-list", "--all", "--not", "HEAD"});
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < commits.size(); at += 41) {
      lines.push_back(commits.substr(at, 40));
    }
    std::sort(lines.begin(), lines.end());
    std::string sorted;
    for (const std::string& line : lines) {
      sorted += line + "\n";
    }
    return sha256_prefixed(sorted);
  };
  SECTION("none") {
    const Baseline baseline = captured(repository.open(), confined_git());
    CHECK(baseline.preexisting == Preexisting{true, 0, sha256_prefixed(""), {}});
  }
  SECTION("of a branch, a tag and a linked worktree") {
    git(repository.path, {"checkout", "-q", "-b", "side"});
    git(repository.path, {"commit", "-q", "--allow-empty", "-m", "side"});
    git(repository.path, {"tag", "-a", "-m", "t", "v1"});
    git(repository.path, {"checkout", "-q", "main"});
    git(repository.path, {"worktree", "add", "-q", "--detach", repository.scratch.path() + "/linked"});
    git(repository.scratch.path() + "/linked", {"commit", "-q", "--allow-empty", "-m", "linked"});
    const Baseline baseline = captured(repository.open(), confined_git());
    CHECK(baseline.preexisting.count == 2);
    CHECK(baseline.preexisting.commits.size() == 2);
    CHECK(std::is_sorted(baseline.preexisting.commits.begin(), baseline.preexisting.commits.end()));
    CHECK(baseline.preexisting.digest == digest_by_git());
  }
  SECTION("of an unborn branch: everything") {
    git(repository.path, {"checkout", "-q", "--orphan", "fresh"});
    CHECK(captured(repository.open()).preexisting.count == 2);
  }
  SECTION("above the cap: count and digest") {
    std::string stream;
    for (std::size_t i = 0; i <= max_listed_commits; ++i) {
      stream += "commit refs/heads/many\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 1\nc\n" +
                std::string(i == 0 ? "from refs/heads/main^0\n" : "") + "\n";
    }
    git(repository.path, {"fast-import", "--quiet"}, stream);
    const Baseline baseline = captured(repository.open());
    CHECK(baseline.preexisting.count == max_listed_commits + 1);
    CHECK(baseline.preexisting.commits.empty());
    CHECK(baseline.preexisting.digest == digest_by_git());
    const json::Value member = baseline_json(baseline);
    CHECK(member.find("preexistingCommitShas") == nullptr);
    CHECK(member.get("preexistingCommits").get("count").as_int() == 4097);
  }
  SECTION("more than git may print is not known, and no failure") {
    git(repository.path, {"branch", "old", "HEAD^"});
    git(repository.path, {"checkout", "-q", "-b", "side"});
    git(repository.path, {"commit", "-q", "--allow-empty", "-m", "side"});
    git(repository.path, {"checkout", "-q", "main"});
    BaselineLimits limits;
    limits.max_commit_bytes = 10;
    const Baseline baseline = captured(repository.open(), direct_git(), limits);
    CHECK_FALSE(baseline.preexisting.known);
    CHECK(baseline_json(baseline).get("preexistingCommits").get("count").is_null());
  }
}

TEST_CASE("a repository that changes between the looks is read three times, then refused") {
  const Repository repository;
  const Worktree worktree = repository.open();
  std::function<void(int)> change;
  SECTION("a file that was clean") {
    change = [&](int number) { write(repository.path + "/one.txt", "v" + std::to_string(number)); };
  }
  SECTION("a file that was changed before") {
    write(repository.path + "/one.txt", "v0");
    change = [&](int number) { write(repository.path + "/one.txt", "v" + std::to_string(number)); };
  }
  SECTION("a new file, in a folder of its own") {
    change = [&](int number) { write(repository.path + "/new" + std::to_string(number) + "/a", "x"); };
  }
  SECTION("a file that goes") {
    change = [&](int number) {
      fs::remove(repository.path + "/" +
                 std::vector<std::string>{"one.txt", "three.txt", "dir/two.txt"}.at(
                     static_cast<std::size_t>(number - 1)));
    };
  }
  SECTION("HEAD") {
    change = [&](int) { git(repository.path, {"commit", "-q", "--allow-empty", "-m", "x"}); };
  }
  SECTION("another ref") {
    change = [&](int number) { git(repository.path, {"branch", "b" + std::to_string(number), "HEAD^"}); };
  }
  SECTION("what is staged") {
    write(repository.path + "/one.txt", "v0");
    change = [&](int number) { git(repository.path, {number % 2 == 0 ? "reset" : "add", "one.txt"}); };
  }
  int looks = 0;
  BaselineLimits limits;
  limits.between_looks = [&](int number) {
    ++looks;
    change(number);
  };
  CHECK(code(capture_baseline(worktree, confined_git(), limits)) == "baseline-unstable");
  CHECK(looks == 3);
}

TEST_CASE("one that changes twice and then holds still is captured as it is then") {
  const Repository repository;
  BaselineLimits limits;
  limits.between_looks = [&](int number) {
    if (number < 3) {
      write(repository.path + "/one.txt", "v" + std::to_string(number));
    }
  };
  const Baseline baseline = captured(repository.open(), confined_git(), limits);
  CHECK(baseline.files.at(0).worktree_sha256 == sha256_hex("v2"));
}

TEST_CASE("what is touched without a change is no change") {
  const Repository repository;
  BaselineLimits limits;
  limits.between_looks = [&](int) {
    write(repository.path + "/one.txt", "one, again\n");  // the same content
    write(repository.path + "/.git/index.lock", "");
    fs::remove(repository.path + "/.git/index.lock");
  };
  CHECK(captured(repository.open(), confined_git(), limits).files.empty());
}

TEST_CASE("the second look asks git only when something moved, and tells what differs") {
  const Repository repository;
  write(repository.path + "/one.txt", "dirty\n");
  const Worktree worktree = repository.open();
  ::usleep(30'000);  // a tick of the kernel's clock: what follows is newer than what was
  const Baseline baseline = captured(worktree);
  int asked = 0;
  const GitRunner counting = [&](const GitCall& call) {
    ++asked;
    return direct_git()(call);
  };
  CHECK(baseline_still(worktree, baseline, counting).has_value());
  CHECK(asked == 0);
  const auto differs = [&] {
    const Status still = baseline_still(worktree, baseline, counting);
    CHECK(code(still) == "baseline-changed");
    CHECK(asked > 0);
    return still.has_error() ? still.error().detail : "";
  };
  SECTION("touched only") {
    write(repository.path + "/one.txt", "dirty\n");
    CHECK(baseline_still(worktree, baseline, counting).has_value());
    CHECK(asked > 0);
  }
  SECTION("a dirty file") {
    write(repository.path + "/one.txt", "dirtier\n");
    CHECK(differs().find("one.txt") != std::string::npos);
  }
  SECTION("a clean file") {
    write(repository.path + "/dir/two.txt", "x\n");
    CHECK(differs().find("dir/two.txt") != std::string::npos);
  }
  SECTION("a new file") {
    write(repository.path + "/dir/new\n", "x\n");
    CHECK(differs().find("dir/new\\n") != std::string::npos);
  }
  SECTION("HEAD") {
    git(repository.path, {"commit", "-q", "--allow-empty", "-m", "x"});
    CHECK(differs().find("HEAD") == 0);
  }
  SECTION("another branch with the same commit") {
    git(repository.path, {"checkout", "-q", "-b", "other"});
    CHECK(differs().find("refs/heads/other") != std::string::npos);
  }
  SECTION("commits of another ref") {
    git(repository.path, {"update-ref", "refs/heads/fetched",
                          git(repository.path, {"commit-tree", "-m", "x", "HEAD^{tree}"})});
    CHECK(differs().find("other refs") != std::string::npos);
  }
}

TEST_CASE("a hundred thousand files are read with one status, and looked at again without git") {
  const Repository repository;
  for (int folder = 0; folder < 1000; ++folder) {
    const std::string path = repository.path + "/many/" + std::to_string(folder);
    fs::create_directories(path);
    for (int i = 0; i < 100; ++i) {
      REQUIRE(::mknod((path + "/" + std::to_string(i)).c_str(), S_IFREG | 0644, 0) == 0);
    }
  }
  git(repository.path, {"add", "many"});
  git(repository.path, {"commit", "-q", "-m", "many"});
  ::usleep(30'000);
  int calls = 0;
  const GitRunner counting = [&](const GitCall& call) {
    ++calls;
    return confined_git()(call);
  };
  const Worktree worktree = repository.open();
  const Baseline baseline = captured(worktree, counting);
  CHECK(baseline.files.empty());
  CHECK(calls == 1);
  CHECK(baseline_still(worktree, baseline, counting).has_value());
  CHECK(calls == 1);
  write(repository.path + "/many/500/50", "x");
  CHECK(code(baseline_still(worktree, baseline, counting)) == "baseline-changed");
}

}  // namespace
}  // namespace hitchrail::workspace::test
