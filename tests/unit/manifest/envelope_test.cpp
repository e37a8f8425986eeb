#include <catch2/catch.hpp>

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
    input.message = text;
    CHECK(built(build_task_envelope(input)).get("subject").get("message").as_string() == text);
  }
}

TEST_CASE("the title is the first line with text, cut at 500 characters, never within one") {
  TaskEnvelopeInput input = envelope_input();
  input.message = "\n  \n  first  \nsecond";
  CHECK(built(build_task_envelope(input)).get("subject").get("title").as_string() == "first");
  input.message.clear();
  for (int i = 0; i < 600; ++i) {
    input.message += "\xc3\xa4";
  }
  const json::Value subject = built(build_task_envelope(input)).get("subject");
  CHECK(subject.get("title").as_string() == input.message.substr(0, 1000));
  CHECK(subject.get("objective") == subject.get("title"));
}

TEST_CASE("an envelope is bound to its runtime manifest and proves itself") {
  json::Value document = built(build_task_envelope(envelope_input()));
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
  const json::Value document = built(build_task_envelope(envelope_input()));
  CHECK(document.find("conversation") == nullptr);
  CHECK(document.get("subject").find("memory") == nullptr);
  CHECK(document.get("workspace").find("worktreeManifestId") == nullptr);
}

TEST_CASE("side effects follow the commit policy and the network") {
  const auto kinds = [](const TaskEnvelopeInput& input) {
    std::string out;
    const json::Value document = built(build_task_envelope(input));
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
  const json::Value document = built(build_task_envelope(input));
  CHECK(document.get("expectedOutputs").items().at(1).get("id").as_string() == "git-commit");
  CHECK(document.get("completionContract").get("evidenceRequirements").items().at(1).get("id").as_string() ==
        "commit");
  input.side_effects = {{"filesystem-write", "/home/op/demo"}};
  CHECK(refusal(build_task_envelope(input)) == "manifest-invalid allowedSideEffects");
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
  SECTION("kind of side effect") {
    input.side_effects = {{"teleport", "/"}};
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid allowedSideEffects.kind");
  }
  SECTION("no baseline") {
    input.baseline = json::Value();
    CHECK(refusal(build_task_envelope(input)) == "manifest-invalid workspace.baseline");
  }
}

TEST_CASE("long constraints go on in the next entry and lose nothing") {
  TaskEnvelopeInput input = envelope_input();
  const std::string text = std::string(4000, 'a') + std::string(4000, 'b') + "c";
  input.constraints = {text};
  std::string joined;
  const json::Value document = built(build_task_envelope(input));
  CHECK(document.get("subject").get("constraints").items().size() == 3);
  for (const json::Value& part : document.get("subject").get("constraints").items()) {
    joined += part.as_string();
  }
  CHECK(joined == text);
  input.constraints.assign(129, "x");
  CHECK(refusal(build_task_envelope(input)) == "manifest-invalid subject.constraints");
}

TEST_CASE("paths that are no text are kept as base64, and a long workspace id is shortened recognisably") {
  TaskEnvelopeInput input = envelope_input();
  input.worktree_path = "/home/op/\xff\n";
  input.workspace_id = std::string(142, 'w') + "\xc3\xa4" + std::string(60, 'x');
  const json::Value document = built(build_task_envelope(input));
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
  const json::Value one = built(build_task_envelope(envelope_input()));
  const json::Value two = built(build_task_envelope(other));
  CHECK(one.get("digest") != two.get("digest"));
  CHECK(envelope_material_digest(one).value() == envelope_material_digest(two).value());
  other.message += " Please.";
  CHECK(envelope_material_digest(one).value() !=
        envelope_material_digest(built(build_task_envelope(other))).value());
}

TEST_CASE("a transport carries the rendered text of the envelope's own provider only") {
  const json::Value envelope = built(build_task_envelope(envelope_input()));
  const json::Value transport = built(build_transport(envelope, "script", "# Task"));
  CHECK(transport.get("taskEnvelopeDigest") == envelope.get("digest"));
  CHECK(transport.get("content").as_string() == "# Task");
  CHECK(refusal(build_transport(envelope, "other", "# Task")) == "manifest-invalid provider");
}

}  // namespace
}  // namespace hitchrail::manifest::test
