#include <catch2/catch.hpp>

#include "core/canonical.hpp"
#include "documents.hpp"

namespace hitchrail::manifest::test {
namespace {

std::string task_code(const std::string& message) {
  const Status status = check_task_message(message);
  return status.has_error() ? status.error().code : "";
}

TEST_CASE("a message that cannot be a task is refused with its own code") {
  CHECK(task_code("") == "task-empty");
  CHECK(task_code(" \n\t\r\n") == "task-empty");
  CHECK(task_code(std::string(2u << 20, 'x')) == "task-too-large");
  CHECK(task_code(std::string(max_task_bytes + 1, 'x')) == "task-too-large");
  CHECK(task_code(std::string(max_task_bytes, 'x')).empty());
  CHECK(task_code("caf\xe9") == "task-invalid-utf8");
  CHECK(task_code("cut \xe2\x82") == "task-invalid-utf8");
  CHECK(task_code("surrogate \xed\xa0\x80") == "task-invalid-utf8");
  CHECK(task_code("del \x7f here") == "task-has-del");
  CHECK(task_code(std::string("nul \0 here", 10)) == "task-has-nul");
  for (const Status& status : {check_task_message(""), check_task_message(std::string(2u << 20, 'x'))}) {
    CHECK(status.error().object == "message");
    CHECK(status.error().kind == ErrorClass::usage);
    CHECK_FALSE(status.error().remedy.empty());
  }
}

TEST_CASE("a message beginning with a slash or a dash, or with controls, arrives unchanged") {
  for (const std::string text : {"/etc is where", "-m is no option", "--", "  indented", "\x1b[31mred",
                                 "tail\n\n", "\xe2\x80\xa8 line separator", "\xf0\x9f\x90\x9b"}) {
    INFO(text);
    TaskEnvelopeInput input = envelope_input();
    input.task.message = text;
    CHECK(envelope_of(input).get("subject").get("message").as_string() == text);
  }
}

TEST_CASE("the title is the first line with text, cut at 500 characters, never within one") {
  TaskEnvelopeInput input = envelope_input();
  input.task.message = "\n  \n  first  \nsecond";
  CHECK(envelope_of(input).get("subject").get("title").as_string() == "first");
  input.task.message.clear();
  for (int i = 0; i < 600; ++i) {
    input.task.message += "\xc3\xa4";
  }
  const json::Value subject = envelope_of(input).get("subject");
  CHECK(subject.get("title").as_string() == input.task.message.substr(0, 1000));
  CHECK(subject.get("objective") == subject.get("title"));
}

TEST_CASE("an envelope is bound to its runtime manifest and proves itself") {
  json::Value document = envelope_of(envelope_input());
  const json::Value manifest = envelope_input().runtime_manifest;
  CHECK(document.get("launchManifest").get("digest") == manifest.get("digest"));
  REQUIRE(refusal(check_task_envelope(document)).empty());
  document.set("commitPolicy", "forbidden");
  CHECK(refusal(check_task_envelope(document)).starts_with("digest-mismatch"));
  TaskEnvelopeInput input = envelope_input();
  input.runtime_manifest.set("providerVersion", "other");
  CHECK(refusal(build_task_envelope(input)).starts_with("digest-mismatch"));
}

TEST_CASE("what a later issue fills is absent, not invented") {
  const json::Value document = envelope_of(envelope_input());
  CHECK(document.find("conversation") == nullptr);
  CHECK(document.get("subject").find("memory") == nullptr);
  CHECK(document.get("workspace").find("worktreeManifestId") == nullptr);
}

TEST_CASE("side effects follow the commit policy and the network") {
  const auto kinds = [](const TaskEnvelopeInput& input) {
    std::string out;
    const json::Value document = envelope_of(input);
    for (const json::Value& effect : document.get("allowedSideEffects").items()) {
      out += effect.get("kind").as_string() + " ";
    }
    return out;
  };
  TaskEnvelopeInput input = envelope_input();
  CHECK(kinds(input) == "filesystem-write process-execute git-commit network-egress ");
  input.network = false;
  input.commit_policy = "forbidden";
  CHECK(kinds(input) == "filesystem-write process-execute ");
}

TEST_CASE("a required commit is an expected output and asks for evidence") {
  TaskEnvelopeInput input = envelope_input();
  input.commit_policy = "required";
  const json::Value document = envelope_of(input);
  CHECK(document.get("expectedOutputs").items().at(1).get("id").as_string() == "git-commit");
  CHECK(document.get("completionContract").get("evidenceRequirements").items().at(1).get("id").as_string() ==
        "commit");
  input.task.side_effects = std::vector<SideEffect>{{"filesystem-write", "/home/op/demo"}};
  CHECK(refusal(build_task_envelope(input)) == "task-commit-effect-missing sideEffects");
}

TEST_CASE("bounds of an envelope are refused with their field") {
  TaskEnvelopeInput input = envelope_input();
  SECTION("policy") {
    input.commit_policy = "perhaps";
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid commitPolicy");
  }
  SECTION("worktree") {
    input.worktree_path = std::string(4097, 'x');
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid workspace.worktreePath");
  }
  SECTION("branch") {
    input.branch = std::string(501, 'x');
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid workspace.branch");
  }
  SECTION("no baseline") {
    input.baseline = json::Value();
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid workspace.baseline");
  }
}

std::vector<std::string> constraints_of(const TaskEnvelopeInput& input) {
  std::vector<std::string> out;
  const json::Value document = envelope_of(input);
  REQUIRE(refusal(check_task_envelope(document)).empty());
  for (const json::Value& entry : document.get("subject").get("constraints").items()) {
    out.push_back(entry.as_string());
  }
  return out;
}

TEST_CASE("long constraints go on in the next entry and lose nothing") {
  TaskEnvelopeInput input = envelope_input();
  std::string text;
  for (int i = 0; i < 8001; ++i) {  // a character is never split
    text += "\xf0\x9f\x90\x9b";
  }
  input.task.constraints = {text};
  const std::vector<std::string> parts = constraints_of(input);
  REQUIRE(parts.size() == 4);
  CHECK(parts[0].size() == 16'000);
  CHECK(parts[2].size() == 4);
  CHECK(parts[0] + parts[1] + parts[2] == text);
  CHECK(parts[3].find("inside the worktree") != std::string::npos);
}

TEST_CASE("one entry has 4000 characters, the next one begins with the 4001st") {
  TaskEnvelopeInput input = envelope_input();
  input.task.constraints = {std::string(4000, 'x')};
  CHECK(constraints_of(input).size() == 2);
  input.task.constraints = {std::string(4001, 'x')};
  CHECK(constraints_of(input).size() == 3);
}

TEST_CASE("instructions, constraints and the host's line share one bound, and none is cut for it") {
  TaskEnvelopeInput input = envelope_input();
  input.task.constraints.assign(27, "x");
  input.task.instructions = {{"file rules.md", std::string(100 * 4000, 'r')}};
  CHECK(constraints_of(input).size() == 128);
  CHECK(constraints_of(input).at(99) == std::string(4000, 'r'));
  input.task.constraints.emplace_back("y");
  CHECK(refusal(build_task_envelope(input)) == "task-bounds constraints and instructions");
}

TEST_CASE("background and acceptance criteria fill their lists, and one more is refused") {
  TaskEnvelopeInput input = envelope_input();
  input.task.background.assign(64, "b");
  input.task.acceptance_criteria.assign(256, "a");
  REQUIRE(refusal(check_task_envelope(envelope_of(input))).empty());
  SECTION("background") {
    input.task.background.emplace_back("b");
    CHECK(refusal(build_task_envelope(input)) == "task-bounds background");
  }
  SECTION("criteria") {
    input.task.acceptance_criteria.back() = std::string(4001, 'a');
    CHECK(refusal(build_task_envelope(input)) == "task-bounds acceptanceCriteria");
  }
}

struct Cut {
  std::string effects, warnings;
};

Cut cut(const TaskEnvelopeInput& input) {
  const Result<TaskEnvelope> result = build_task_envelope(input);
  REQUIRE(result.has_value());
  REQUIRE(refusal(check_task_envelope(result->document)).empty());
  Cut out;
  for (const json::Value& effect : result->document.get("allowedSideEffects").items()) {
    out.effects += effect.get("kind").as_string() + "=" + effect.get("scope").as_string() + " ";
  }
  for (const Finding& warning : result->warnings) {
    out.warnings += warning.code + " " + warning.detail.substr(0, warning.detail.find(':')) + "; ";
  }
  return out;
}

TEST_CASE("asked-for side effects are kept inside the worktree, cut from above it, dropped beside it") {
  TaskEnvelopeInput input = envelope_input();
  input.task.side_effects = std::vector<SideEffect>{{"filesystem-write", "src/../dist/"},
                                                    {"filesystem-write", "/home/op/demo/./docs"},
                                                    {"process-execute", "/home"},
                                                    {"filesystem-write", "/home/op/demonstration"},
                                                    {"git-commit", "../.."},
                                                    {"network-egress", "example.com"}};
  const Cut done = cut(input);
  CHECK(
      done.effects ==
      "filesystem-write=/home/op/demo/dist filesystem-write=/home/op/demo/docs process-execute=/home/op/demo "
      "git-commit=/home/op/demo network-egress=example.com ");
  CHECK(done.warnings ==
        "side-effect-clamped process-execute at /home; side-effect-dropped filesystem-write at "
        "/home/op/demonstration; side-effect-clamped git-commit at ../..; ");
}

TEST_CASE("kinds that the launch does not have are dropped with a warning") {
  TaskEnvelopeInput input = envelope_input();
  input.network = false;
  input.commit_policy = "forbidden";
  input.task.side_effects = std::vector<SideEffect>{{"network-egress", "example.com"},
                                                    {"git-commit", "."},
                                                    {"external-write", "the wiki"},
                                                    {"task-mutate", "all"},
                                                    {"artifact-write", "."}};
  const Cut done = cut(input);
  CHECK(done.effects.empty());
  CHECK(done.warnings ==
        "side-effect-dropped network-egress at example.com; side-effect-dropped git-commit at .; "
        "side-effect-dropped external-write at the wiki; side-effect-dropped task-mutate at all; "
        "side-effect-dropped artifact-write at .; ");
}

TEST_CASE("the command line's commit policy beats the task's, which beats allowed") {
  TaskSpec task;
  CHECK(effective_commit_policy("", task) == "allowed");
  task.commit_policy = "required";
  CHECK(effective_commit_policy("", task) == "required");
  CHECK(effective_commit_policy("forbidden", task) == "forbidden");
}

TEST_CASE("a required commit output under a policy that forbids commits is refused") {
  TaskEnvelopeInput input = envelope_input();
  input.task.expected_outputs = {{"change", "commit", "The change", "", true}};
  input.commit_policy = "forbidden";
  CHECK(refusal(build_task_envelope(input)) == "task-commit-conflict expectedOutputs");
  input.commit_policy = "required";
  CHECK(envelope_of(input).get("expectedOutputs").items().size() == 2);
  input.task.expected_outputs.front().required = false;
  CHECK(envelope_of(input).get("expectedOutputs").items().size() == 3);
  input.task.expected_outputs.front().id = "git-commit";
  CHECK(refusal(build_task_envelope(input)) == "task-duplicate-id expectedOutputs");
}

TEST_CASE("gates and their commands are a snapshot, and ask for evidence") {
  TaskEnvelopeInput input = envelope_input();
  input.task.gates = {{"unit", "The unit tests pass", {"make", "check"}, 60'000, true, true},
                      {"read", "Somebody read it", {}, 600'000, false, false}};
  const json::Value document = envelope_of(input);
  REQUIRE(refusal(check_task_envelope(document)).empty());
  CHECK(json::write(document.get("verificationGates")) ==
        R"([{"id":"unit","description":"The unit tests pass","required":true,"evidenceRequired":true,)"
        R"("command":{"argv":["make","check"],"timeoutMs":60000}},)"
        R"({"id":"read","description":"Somebody read it","required":false,"evidenceRequired":false}])");
  const json::Value& evidence = document.get("completionContract").get("evidenceRequirements");
  CHECK(evidence.items().at(1).get("kind").as_string() == "verification");
  CHECK(evidence.items().at(1).get("required").as_bool());
  input.task.evidence = {{"verification", "other", "again", true}};
  CHECK(refusal(build_task_envelope(input)) == "task-duplicate-id evidenceRequirements");
  input.task.evidence.clear();
  input.task.gates.front().argv.emplace_back("--token=ghp_abcdefghijklmnopqrstuvwxyz012345");
  CHECK(refusal(build_task_envelope(input)) == "manifest-secret verificationGates.unit.command");
}

TaskEnvelopeInput rich_input() {
  TaskEnvelopeInput input = envelope_input();
  input.commit_policy = "required";
  input.worktree_manifest_id = "wt_1";
  input.base_resolution_source = "remote";
  input.task.gates = {{"unit", "The unit tests pass", {"make", "check"}, 60'000, true, true}};
  input.task.expected_outputs = {{"report", "file", "A report", "dist/report.txt", true}};
  input.task.evidence = {{"changed", "file-change", "Something changed", true}};
  input.task.memory = {{"refl_1",
                        "task_0",
                        "",
                        {"event_1"},
                        "testing",
                        "It was slow",
                        "Run one suite",
                        90,
                        80,
                        2,
                        "2026-01-01T00:00:00Z"}};
  input.conversation = json::Value::object(
      {{"mode", "resume"}, {"sourceAttemptId", "attempt_0"}, {"conversationId", "thread"}});
  return input;
}

// Every place of a document, as the steps that lead to it.
void places(const json::Value& value, std::vector<std::size_t> path,
            std::vector<std::vector<std::size_t>>& out) {
  out.push_back(path);
  const std::size_t count = value.items().size() + value.members().size();
  for (std::size_t i = 0; i < count; ++i) {
    path.push_back(i);
    places(value.is_array() ? value.items()[i] : value.members()[i].second, path, out);
    path.pop_back();
  }
}

json::Value& at(json::Value& document, const std::vector<std::size_t>& path) {
  json::Value* value = &document;
  for (const std::size_t step : path) {
    value = value->is_array() ? &value->items()[step] : &value->members()[step].second;
  }
  return *value;
}

TEST_CASE("an envelope in which any member has another type, or one more member, is refused") {
  const json::Value good = envelope_of(rich_input());
  REQUIRE(refusal(check_task_envelope(good)).empty());
  std::vector<std::vector<std::size_t>> all;
  places(good, {}, all);
  std::size_t tried = 0;
  for (const auto& path : all) {
    json::Value document = good;
    const json::Value before = at(document, path);
    if (path.empty() || &at(document, path) == document.find("digest")) {
      continue;
    }
    // workspace.baseline is another service's; only what a renderer reads of it is checked.
    const bool in_baseline = [&] {
      const json::Value& space = good.get("workspace");
      return path.size() >= 3 && good.members()[path[0]].first == "workspace" &&
             space.members()[path[1]].first == "baseline";
    }();
    std::vector<json::Value> wrong = {json::Value(), json::Value::array({json::Value()})};
    if (before.is_object()) {
      json::Value more = before;
      more.set("another", 1);
      wrong.push_back(std::move(more));
    }
    for (json::Value& value : wrong) {
      if (in_baseline || (before.is_object() && value.is_object() && before.find("capturedAt") != nullptr)) {
        continue;
      }
      at(document, path) = std::move(value);
      document.erase("digest");
      REQUIRE(seal_document(document).has_value());
      INFO(json::write(document));
      CHECK(check_task_envelope(document).has_error());
      ++tried;
      document = good;
    }
  }
  CHECK(tried > 120);
}

TEST_CASE("an envelope without any one of its members is refused, the optional ones excepted") {
  const json::Value good = envelope_of(rich_input());
  for (const auto& [name, member] : good.members()) {
    json::Value document = good;
    document.erase(name);
    if (name != "digest") {
      document.erase("digest");
      REQUIRE(seal_document(document).has_value());
    }
    INFO(name);
    CHECK(check_task_envelope(document).has_error() == (name != "conversation"));
  }
}

TEST_CASE("paths that are no text are kept as base64, and a long workspace id is shortened recognisably") {
  TaskEnvelopeInput input = envelope_input();
  input.worktree_path = "/home/op/\xff\n";
  input.workspace_id = std::string(142, 'w') + "\xc3\xa4" + std::string(60, 'x');
  const json::Value document = envelope_of(input);
  CHECK(document.get("workspace").get("worktreePath").get("base64").as_string() == "L2hvbWUvb3Av/wo=");
  const std::string id = document.get("workspace").get("workspaceId").as_string();
  CHECK(id.size() <= 160);
  CHECK(id.substr(0, 143) == std::string(142, 'w') + "~");
}

TEST_CASE("the material digest of an envelope ignores attempt, task id and times") {
  TaskEnvelopeInput other = envelope_input();
  other.attempt_id = "attempt_2";
  other.task_id = "task_2";
  other.created_at_ms += 5;
  other.baseline.set("capturedAt", "2026-02-02T00:00:00.000Z");
  const json::Value one = envelope_of(envelope_input());
  const json::Value two = envelope_of(other);
  CHECK(one.get("digest") != two.get("digest"));
  CHECK(envelope_material_digest(one).value() == envelope_material_digest(two).value());
  other.task.message += " Please.";
  CHECK(envelope_material_digest(one).value() != envelope_material_digest(envelope_of(other)).value());
}

TEST_CASE("a transport carries the rendered text of the envelope's own provider only") {
  const json::Value envelope = envelope_of(envelope_input());
  const json::Value transport = built(build_transport(envelope, "script", "# Task"));
  CHECK(transport.get("taskEnvelopeDigest") == envelope.get("digest"));
  CHECK(transport.get("content").as_string() == "# Task");
  CHECK(refusal(build_transport(envelope, "other", "# Task")) == "manifest-invalid provider");
}

}  // namespace
}  // namespace hitchrail::manifest::test
