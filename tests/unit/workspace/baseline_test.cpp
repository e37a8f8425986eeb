#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/canonical.hpp"
#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

Baseline captured(const Worktree& worktree, const GitRunner& git) {
  auto baseline = capture_baseline(worktree, git);
  if (baseline.has_error()) {
    FAIL(told(baseline));
  }
  return baseline.value();
}

const FileState* file(const Baseline& baseline, const std::string& path) {
  for (const FileState& state : baseline.files) {
    if (state.path == path) {
      return &state;
    }
  }
  return nullptr;
}

TEST_CASE("a clean worktree has a head, a branch and no files") {
  const Repository repository;
  const Baseline baseline = captured(repository.open(), confined_git());
  CHECK(baseline.head == Head{"refs/heads/main", repository.head()});
  CHECK(baseline.branch == "main");
  CHECK_FALSE(baseline.dirty);
  CHECK(baseline.files.empty());
  CHECK(baseline.captured_at_ms > 0);
}

TEST_CASE("each kind of change is told with its state and content") {
  const Repository repository;
  write(repository.path + "/one.txt", "changed\n");
  write(repository.path + "/new.txt", "new\n");
  write(repository.path + "/staged.txt", "staged\n");
  fs::remove(repository.path + "/three.txt");
  fs::create_symlink("one.txt", repository.path + "/link");
  git(repository.path, {"add", "staged.txt"});
  const Baseline baseline = captured(repository.open(), confined_git());
  CHECK(baseline.dirty);
  REQUIRE(baseline.files.size() == 5);
  REQUIRE(file(baseline, "one.txt") != nullptr);
  CHECK(file(baseline, "one.txt")->status == "modified");
  CHECK(file(baseline, "one.txt")->worktree_sha256 == sha256_hex("changed\n"));
  CHECK(file(baseline, "one.txt")->index_blob == repository.head("HEAD:one.txt"));
  CHECK(file(baseline, "new.txt")->status == "untracked");
  CHECK(file(baseline, "new.txt")->index_blob.empty());
  CHECK(file(baseline, "staged.txt")->status == "added");
  CHECK(file(baseline, "three.txt")->status == "deleted");
  CHECK(file(baseline, "three.txt")->worktree_sha256.empty());
  CHECK(file(baseline, "link")->worktree_sha256 == sha256_hex("one.txt"));
}

TEST_CASE("the state of a launch can be read in every kind of worktree") {
  const Repository repository;
  SECTION("an unborn branch") {
    const Scratch scratch;
    git(scratch.path(), {"init", "-q", "-b", "start"});
    write(scratch.path() + "/a", "a");
    const Baseline baseline = captured(open_worktree(scratch.path()).value(), confined_git());
    CHECK(baseline.head == Head{"refs/heads/start", ""});
    CHECK(baseline.files.size() == 1);
    CHECK(baseline_json(baseline).get("headSha").is_null());
  }
  SECTION("a detached head") {
    git(repository.path, {"checkout", "-q", "--detach"});
    const Baseline baseline = captured(repository.open(), confined_git());
    CHECK(baseline.head == Head{"", repository.head()});
    CHECK(baseline.branch.empty());
  }
  SECTION("a linked worktree") {
    const std::string linked = repository.scratch.path() + "/linked";
    git(repository.path, {"worktree", "add", "-q", linked, "-b", "side"});
    write(linked + "/one.txt", "linked\n");
    const Baseline baseline = captured(open_worktree(linked).value(), confined_git());
    CHECK(baseline.branch == "side");
    CHECK(baseline.files.size() == 1);
  }
  SECTION("a submodule, and the repository around it") {
    const Repository inner;
    git(repository.path, {"submodule", "--quiet", "add", inner.path, "sub"});
    git(repository.path, {"commit", "-q", "-m", "sub"});
    write(repository.path + "/sub/one.txt", "in the submodule\n");
    CHECK(captured(open_worktree(repository.path + "/sub").value(), confined_git()).files.size() == 1);
    CHECK(captured(repository.open(), confined_git()).files.empty());
  }
  SECTION("sha256") {
    const Repository wide({"--object-format=sha256"});
    write(wide.path + "/one.txt", "x");
    const Baseline baseline = captured(wide.open(), confined_git());
    CHECK(baseline.head.oid.size() == 64);
    CHECK(baseline.files.at(0).index_blob.size() == 64);
  }
  SECTION("borrowed objects") {
    const std::string shared = repository.scratch.path() + "/shared";
    git(repository.scratch.path(), {"clone", "-q", "--shared", repository.path, shared});
    write(shared + "/one.txt", "x");
    CHECK(captured(open_worktree(shared, {false, true, {}}).value(), confined_git()).files.size() == 1);
  }
}

TEST_CASE("names of any bytes survive into the document and back") {
  const Repository repository;
  const std::vector<std::string> names = {"line\nfeed", "esc\x1b[31mred", "bytes\xff\xfe",
                                          " space ",    "\"quote",        "\xc3\xa4"};
  for (const std::string& name : names) {
    write(repository.path + "/" + name, name);
  }
  const Baseline baseline = captured(repository.open(), confined_git());
  REQUIRE(baseline.files.size() == names.size());
  for (const std::string& name : names) {
    REQUIRE(file(baseline, name) != nullptr);
    CHECK(file(baseline, name)->worktree_sha256 == sha256_hex(name));
  }
  json::Value document = baseline_json(baseline);
  REQUIRE(document_digest(document).has_value());
  const Baseline back = baseline_from_json(document).value();
  CHECK(back.files == baseline.files);
  CHECK(back.head == baseline.head);
  CHECK(back.branch == baseline.branch);
}

TEST_CASE("of many changes the envelope has count and digest, the attempt's own document all of them") {
  const Repository repository;
  for (std::size_t i = 0; i <= max_listed_files; ++i) {
    write(repository.path + "/many/" + std::to_string(i), "x" + std::to_string(i));
  }
  const Baseline baseline = captured(repository.open(), confined_git());
  const json::Value member = baseline_json(baseline);
  CHECK(member.get("files").items().empty());
  CHECK(member.get("fileCount").as_int() == 1001);
  const std::string document = json::write(baseline_document(baseline).value());
  CHECK(baseline_from_json(member, document).value().files == baseline.files);
  CHECK(code(baseline_from_json(member)) == "baseline-invalid");  // never a shorter list in its place
  std::string edited = document;
  edited.replace(edited.find("many/77\""), 7, "many/78");
  CHECK(code(baseline_from_json(member, edited)) == "digest-mismatch");
}

TEST_CASE("content over the bound is left unhashed, the file is still told") {
  const Repository repository;
  write(repository.path + "/a-small", "small");
  write(repository.path + "/b-large", std::string(100'000, 'x'));
  BaselineLimits limits;
  limits.max_hash_bytes = 50'000;
  const Baseline baseline = capture_baseline(repository.open(), confined_git(), limits).value();
  CHECK_FALSE(file(baseline, "a-small")->worktree_sha256.empty());
  CHECK(file(baseline, "b-large")->worktree_sha256.empty());
}

TEST_CASE("a worktree that moves while it is read is refused after three attempts") {
  const Repository repository;
  int calls = 0;
  const GitRunner moving = [&](const GitCall& call) {
    write(repository.path + "/moving.txt", std::to_string(calls++));
    return direct_git()(call);
  };
  CHECK(code(capture_baseline(repository.open(), moving)) == "baseline-unstable");
  CHECK(calls == 6);
}

TEST_CASE("a worktree that moves once is read again") {
  const Repository repository;
  int calls = 0;
  const GitRunner moving = [&](const GitCall& call) {
    if (calls++ < 2) {
      write(repository.path + "/moving.txt", std::to_string(calls));
    }
    return direct_git()(call);
  };
  CHECK(capture_baseline(repository.open(), moving).value().files.size() == 1);
}

TEST_CASE("a commit made while the state is read does not slip in between") {
  const Repository repository;
  int calls = 0;
  const GitRunner racing = [&](const GitCall& call) {
    auto outcome = direct_git()(call);
    if (calls++ == 0) {
      git(repository.path, {"commit", "-q", "--allow-empty", "-m", "race"});
    }
    return outcome;
  };
  const Baseline baseline = capture_baseline(repository.open(), racing).value();
  CHECK(baseline.head.oid == repository.head());
  CHECK(calls == 2);
}

TEST_CASE("git that fails or cannot be started is an error, never an empty state") {
  const Repository repository;
  const GitRunner failing = [](const GitCall&) -> Result<GitOutcome> {
    GitOutcome outcome;
    outcome.exit_code = 128;
    outcome.error = "fatal: \x1b[31mbad";
    return outcome;
  };
  const auto failed = capture_baseline(repository.open(), failing);
  CHECK(code(failed) == "git-failed");
  CHECK(failed.error().detail.find('\x1b') == std::string::npos);
  const GitRunner absent = [](const GitCall&) -> Result<GitOutcome> {
    return Error{ErrorClass::environment, "boundary-failed", "start boundary", "x", "y", "z"};
  };
  CHECK(code(capture_baseline(repository.open(), absent)) == "boundary-failed");
}

TEST_CASE("reading the state leaves the repository exactly as it was") {
  const Repository repository;
  write(repository.path + "/one.txt", "changed\n");
  const auto listing = [&] {
    std::string out;
    for (const auto& entry : fs::recursive_directory_iterator(repository.path)) {
      struct stat st {};
      REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
      out += entry.path().string() + " " + std::to_string(st.st_mtim.tv_sec) + "." +
             std::to_string(st.st_mtim.tv_nsec) + " " + std::to_string(st.st_ino) + "\n";
    }
    return out;
  };
  const std::string before = listing();
  captured(repository.open(), confined_git());
  CHECK(listing() == before);
}

}  // namespace
}  // namespace hitchrail::workspace::test
