#include <fcntl.h>

#include <filesystem>

#include "../workspace/repository.hpp"
#include "attempt/recover.hpp"
#include "finish/workspace_step.hpp"
#include "finish_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
namespace ws = hitchrail::workspace::test;

namespace {

// A run in a real repository, as the road prepares it and the supervisor leaves it.
struct Run {
  ws::Repository repository;
  TempDir state;
  std::optional<attempt::Directory> directory;

  explicit Run(const std::string& policy) {
    const auto worktree = repository.open();
    const auto baseline = must(workspace::capture_baseline(worktree, ws::direct_git()));
    json::Value envelope = json::Value::object({{"schemaVersion", "task-envelope/v1"}});
    envelope.set("workspace", json::Value::object({{"baseline", workspace::baseline_json(baseline)}}));
    json::Value effects =
        json::Value::array({json::Value::object({{"kind", "filesystem-write"}, {"scope", worktree.root}})});
    if (policy != "forbidden") {
      effects.push(json::Value::object({{"kind", "git-commit"}, {"scope", worktree.root}}));
    }
    envelope.set("allowedSideEffects", effects);
    auto fresh = new_attempt("attempt_ws1");
    fresh.worktree = worktree.root;
    fresh.header.set("commitPolicy", policy);
    fresh.header.set("worktreeIdentity", worktree.identity());
    fresh.documents = {{"task-envelope.json", json::write(envelope)}};
    auto builder = must(attempt::Builder::begin(state.fd(), fresh));
    repository.attempt = state / "attempts/attempt_ws1";
    must(workspace::prepare_private_git(worktree, builder.fd(), repository.attempt));
    directory.emplace(std::move(must(builder.publish()).directory));
    auto writer = must(journal::Writer::create(directory->fd(), fresh.identity, json::Value()));
    journal::Draft draft;
    draft.kind = "run.verdict";
    draft.origin = {journal::Origin::Kind::input, 0, 0, 9, 0, ""};
    draft.fields_json = R"({"status":"success"})";
    must(writer.append(draft, 1));
    must(writer.commit());
    must(attempt::write_exit_slot(directory->fd(), slot_of({})));
  }
  void commit(const std::string& file) const {
    ws::write(repository.path + "/" + file, "by the run\n");
    ws::git_in_run(repository, {"add", file});
    ws::git_in_run(repository, {"commit", "-q", "-m", "run: " + file});
  }
  json::Value finish() const {
    const Fd program(::open(HITCHRAIL_FINISH_PROGRAM, O_RDONLY | O_CLOEXEC));
    must(attempt::run_finisher(*directory, program.get()));
    return must(attempt::completion(*directory));
  }
};

}  // namespace

TEST_CASE("the program imports the run's commits and says what changed") {
  const Run run("allowed");
  run.commit("new.txt");
  ws::write(run.repository.path + "/loose.txt", "untracked\n");
  const std::string tip = ws::git_in_run(run.repository, {"rev-parse", "HEAD"});
  const auto done = run.finish();
  INFO(json::write(done, 1));
  CHECK(state_of(*run.directory) == "completed");
  CHECK(run.repository.head() == tip);
  CHECK(done.get("changedFiles").items().size() == 2);
  REQUIRE(done.get("commits").items().size() == 1);
  CHECK(done.get("commits").items()[0].get("oid").as_string() == tip);
  CHECK(done.get("import").get("imported").items().size() >= 1);
  CHECK(done.get("evidence").items().size() == 3);
  CHECK(done.get("blockers").items().empty());
  must(verify_document(done));
  CHECK_FALSE(ws::exists(run.repository.attempt + "/git"));
  CHECK(ws::git(run.repository.path, {"status", "--porcelain"}) == "?? loose.txt");
}

TEST_CASE("forbidden commits are not imported, kept, and make a success partial") {
  const Run run("forbidden");
  run.commit("new.txt");
  const std::string before = run.repository.head();
  const auto done = run.finish();
  CHECK(state_of(*run.directory) == "failed:forbidden-commit-created");
  CHECK(done.get("status").as_string() == "partial");
  CHECK(run.repository.head() == before);
  CHECK(ws::exists(run.repository.attempt + "/git"));
}

TEST_CASE("a cut list that cannot be kept whole is no success") {
  const Run run("allowed");
  std::filesystem::create_directory(run.repository.path + "/many");
  for (int i = 0; i < 2001; ++i) {
    ws::write(run.repository.path + "/many/" + std::to_string(i), "x");
  }
  ws::write(run.repository.attempt + "/evidence", "in the way\n");
  const auto done = run.finish();
  CHECK(state_of(*run.directory) == "failed:changed-files-truncated");
  CHECK(done.get("changedFilesTotal").as_int().value() == 2001);
  CHECK(done.get("changedFilesTruncated").as_bool());
  CHECK(done.find("changedFilesDigest") == nullptr);
  for (const json::Value& item : done.get("evidence").items()) {
    CHECK(item.get("verified").as_bool() == (item.get("id").as_string() != "file-changes"));
  }
}

TEST_CASE("a required commit that is missing makes a success partial") {
  const Run run("required");
  const auto done = run.finish();
  CHECK(state_of(*run.directory) == "failed:required-commit-missing");
  CHECK(done.get("blockers").items().at(0).get("retryable").as_bool());
}

TEST_CASE("another worktree at the same path is not touched") {
  const Run run("allowed");
  run.commit("new.txt");
  REQUIRE(::rename(run.repository.path.c_str(), (run.repository.path + ".away").c_str()) == 0);
  const ws::Repository other;
  REQUIRE(::rename(other.path.c_str(), run.repository.path.c_str()) == 0);
  const std::string before = ws::git(run.repository.path, {"rev-parse", "HEAD"});
  const auto done = run.finish();
  CHECK(state_of(*run.directory) == "failed:workspace-evidence-failed");
  CHECK_THAT(done.get("blockers").items().at(0).get("detail").as_string(),
             Catch::Contains("worktree-changed"));
  CHECK(ws::git(run.repository.path, {"rev-parse", "HEAD"}) == before);
  CHECK(ws::exists(run.repository.attempt + "/git"));
}
