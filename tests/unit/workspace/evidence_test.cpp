#include <catch2/catch.hpp>
#include <filesystem>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

// A launch: baseline and private directory, in the order of the road.
Baseline launched(const Repository& repository) {
  const Worktree worktree = repository.open();
  auto baseline = capture_baseline(worktree, confined_git());
  if (baseline.has_error()) {
    FAIL(told(baseline));
  }
  PrivateGitOptions options;
  options.expected_head = baseline.value().head;
  auto out = prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt, options);
  if (out.has_error()) {
    FAIL(told(out));
  }
  return baseline.value();
}

Evidence collected(const Repository& repository, const Baseline& baseline) {
  auto evidence = collect_evidence(repository.open(), baseline, repository.attempt_fd.get(),
                                   repository.attempt, confined_git());
  if (evidence.has_error()) {
    FAIL(told(evidence));
  }
  return evidence.value();
}

std::string text(const Evidence& evidence) {
  std::string out;
  for (const ChangedFile& file : evidence.changed) {
    out += file.status + ":" + (file.previous_path.empty() ? "" : file.previous_path + ">") + file.path +
           (file.verified ? " " : "? ");
  }
  return out;
}

TEST_CASE("a run that did nothing has changed nothing") {
  const Repository repository;
  write(repository.path + "/one.txt", "dirty before\n");
  write(repository.path + "/new.txt", "untracked before\n");
  const Baseline baseline = launched(repository);
  const Evidence evidence = collected(repository, baseline);
  CHECK(text(evidence).empty());
  CHECK(evidence.commits.empty());
  CHECK(evidence.head_attributable);
}

TEST_CASE("only what differs from the launch is told, committed or not") {
  const Repository repository;
  write(repository.path + "/kept.txt", "dirty before, untouched\n");
  write(repository.path + "/touched.txt", "dirty before\n");
  write(repository.path + "/vanishes.txt", "dirty before\n");
  write(repository.path + "/three.txt", "dirty before\n");
  const Baseline baseline = launched(repository);
  write(repository.path + "/touched.txt", "by the run\n");
  fs::remove(repository.path + "/vanishes.txt");
  write(repository.path + "/three.txt", "three\n");
  write(repository.path + "/one.txt", "by the run\n");
  git_in_run(repository, {"add", "one.txt"});
  git_in_run(repository, {"commit", "-q", "-m", "committed \x1b[31m"});
  fs::remove(repository.path + "/dir/two.txt");
  const Evidence evidence = collected(repository, baseline);
  CHECK(
      text(evidence) ==
      "deleted:dir/two.txt modified:one.txt modified:three.txt untracked:touched.txt deleted:vanishes.txt ");
  REQUIRE(evidence.commits.size() == 1);
  CHECK(evidence.commits.at(0).oid == git_in_run(repository, {"rev-parse", "HEAD"}));
  CHECK(evidence.commits.at(0).subject == "committed \\x1b[31m");
  CHECK(evidence.head_attributable);
}

TEST_CASE("a commit of what the operator had left is no change of the run") {
  const Repository repository;
  write(repository.path + "/one.txt", "by the operator\n");
  const Baseline baseline = launched(repository);
  git_in_run(repository, {"commit", "-q", "-a", "-m", "theirs"});
  const Evidence evidence = collected(repository, baseline);
  CHECK(text(evidence).empty());
  CHECK(evidence.commits.size() == 1);
}

TEST_CASE("a rename and a file that exists only in a commit are told") {
  const Repository repository;
  const Baseline baseline = launched(repository);
  git_in_run(repository, {"mv", "three.txt", "moved.txt"});
  write(repository.path + "/passing.txt", "here and gone\n");
  git_in_run(repository, {"add", "passing.txt"});
  git_in_run(repository, {"commit", "-q", "-m", "x"});
  fs::remove(repository.path + "/passing.txt");
  CHECK(text(collected(repository, baseline)) == "renamed:three.txt>moved.txt added:passing.txt ");
}

TEST_CASE("history that is not the launch's is not attributed, its files still are") {
  const Repository repository;
  const Baseline baseline = launched(repository);
  write(repository.path + "/one.txt", "x\n");
  SECTION("amended") {
    git_in_run(repository, {"commit", "-q", "-a", "--amend", "-m", "x"});
  }
  SECTION("another branch") {
    git_in_run(repository, {"checkout", "-q", "-b", "other"});
    git_in_run(repository, {"commit", "-q", "-a", "-m", "x"});
  }
  SECTION("no head at all") {
    fs::remove(repository.attempt + "/git/HEAD");
  }
  const Evidence evidence = collected(repository, baseline);
  CHECK_FALSE(evidence.head_attributable);
  CHECK(evidence.commits.empty());
  CHECK(text(evidence) == "modified:one.txt ");
  const json::Value effects = side_effects_json(evidence, Scopes{{""}}, Scopes{{""}});
  CHECK(effects.items().back().get("kind").as_string() == "git-commit");
  CHECK_FALSE(effects.items().back().get("authorized").as_bool());
}

TEST_CASE("a run cannot hide a change by what it writes into its private directory") {
  const Repository repository;
  const Baseline baseline = launched(repository);
  write(repository.path + "/one.txt", "hidden\n");
  write(repository.path + "/new.txt", "hidden\n");
  git_in_run(repository, {"update-index", "--assume-unchanged", "one.txt"});
  write(repository.attempt + "/git/info/exclude", "*\n");
  write(repository.attempt + "/git/config", "[core]\n\tworktree = /nonexistent\n\tbare = true\n");
  CHECK(text(collected(repository, baseline)) == "untracked:new.txt modified:one.txt ");
}

TEST_CASE("the first commits of a repository are told") {
  const Repository repository;
  git(repository.path, {"checkout", "-q", "--orphan", "fresh"});
  git(repository.path, {"rm", "-r", "-q", "-f", "."});
  const Baseline baseline = launched(repository);
  write(repository.path + "/a.txt", "a\n");
  git_in_run(repository, {"add", "."});
  git_in_run(repository, {"commit", "-q", "-m", "root"});
  const Evidence evidence = collected(repository, baseline);
  CHECK(text(evidence) == "added:a.txt ");
  CHECK(evidence.commits.size() == 1);
  CHECK(evidence.head_attributable);
}

TEST_CASE("evidence is the same before and after the import") {
  const Repository repository;
  const Baseline baseline = launched(repository);
  write(repository.path + "/one.txt", "x\n");
  git_in_run(repository, {"commit", "-q", "-a", "-m", "x"});
  const std::string before = text(collected(repository, baseline));
  REQUIRE(import_commits(repository.open(), repository.attempt_fd.get(), repository.attempt,
                         CommitPolicy::allowed, direct_git())
              .has_value());
  CHECK(text(collected(repository, baseline)) == before);
  CHECK(before == "modified:one.txt ");
}

TEST_CASE("lists are bounded and say so") {
  const Repository repository;
  const Baseline baseline = launched(repository);
  for (int i = 0; i < 2100; ++i) {
    write(repository.path + "/many/" + std::to_string(i), "x");
  }
  std::string commits;
  for (int i = 0; i < 260; ++i) {
    commits += "commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 1\nc\n" +
               std::string(i == 0 ? "from refs/heads/main^0\n" : "") + "\n";
  }
  git(repository.path, {"--git-dir=" + repository.attempt + "/git", "fast-import", "--quiet"}, commits);
  const Evidence evidence = collected(repository, baseline);
  CHECK(evidence.changed.size() == 2100);
  CHECK(changed_files_json(evidence).items().size() == 2000);
  CHECK(evidence.commits.size() == 260);
  CHECK(commits_json(evidence).items().size() == 256);
  const json::Value effects = side_effects_json(evidence, Scopes{{"many/1"}}, Scopes{});
  CHECK_THAT(json::write(effects),
             Catch::Contains("2099 changed files outside every allowed scope: many/0, "));
}

TEST_CASE("a scope allows itself and what lies below it, by whole components and bytes") {
  const json::Value effects =
      json::parse(
          R"([{"kind":"filesystem-write","scope":"/w/src"},{"kind":"filesystem-write","scope":{"base64":"L3cvYf8="}},)"
          R"({"kind":"filesystem-write","scope":"/wide"},{"kind":"git-commit","scope":"/w"}])",
          json::Duplicates::refuse, "effects")
          .value();
  const Scopes writes = allowed_scopes(effects, "filesystem-write", "/w");
  CHECK(writes.paths == std::vector<std::string>{"src", "a\xff"});
  for (const char* path : {"src", "src/", "src/main.txt", "a\xff/b"}) {
    CHECK(writes.allow(path));
  }
  for (const char* path : {"srcs", "sr", "README", "a", "lib/src", "a\xfe/b"}) {
    CHECK_FALSE(writes.allow(path));
  }
  CHECK_FALSE(writes.whole());
  CHECK(allowed_scopes(effects, "git-commit", "/w").whole());
  CHECK(allowed_scopes(effects, "network-egress", "/w").paths.empty());
  Evidence evidence;
  evidence.head_attributable = true;
  evidence.changed = {{"src/new", "renamed", "old", true}};
  CHECK_FALSE(side_effects_json(evidence, writes, {}).items().front().get("authorized").as_bool());
}

TEST_CASE("the members of a completion result") {
  Evidence evidence;
  evidence.head = {"refs/heads/main", "abc"};
  evidence.head_attributable = true;
  evidence.commits = {{"abc", "subject"}};
  evidence.changed = {{"a\nb", "modified", "", true}, {"new", "renamed", "old", false}};
  CHECK(json::write(changed_files_json(evidence)) ==
        R"([{"path":{"base64":"YQpi"},"status":"modified","previousPath":null,"verified":true},)"
        R"({"path":"new","status":"renamed","previousPath":"old","verified":false}])");
  CHECK(json::write(commits_json(evidence)) == R"([{"oid":"abc","subject":"subject"}])");
  CHECK(
      json::write(side_effects_json(evidence, Scopes{{""}}, Scopes{})) ==
      R"([{"kind":"filesystem-write","description":"2 changed files","target":null,"authorized":true,"verified":true},)"
      R"({"kind":"git-commit","description":"1 commits","target":"abc","authorized":false,"verified":true}])");
}

}  // namespace
}  // namespace hitchrail::workspace::test
