// What the host builds and the SDK's schemas say the same.
#include <rapidjson/document.h>
#include <rapidjson/schema.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "documents.hpp"

namespace hitchrail::manifest::test {
namespace {

bool valid(const std::string& name, const std::string& text) {
  std::ifstream in(HITCHRAIL_SOURCE_DIR "/sdk/schemas/" + name + ".json");
  const std::string schema{std::istreambuf_iterator<char>(in), {}};
  rapidjson::Document document;
  document.Parse(schema.c_str());
  REQUIRE_FALSE(document.HasParseError());
  const rapidjson::SchemaDocument compiled(document);
  rapidjson::SchemaValidator validator(compiled);
  rapidjson::Document instance;
  instance.Parse(text.c_str());
  return !instance.HasParseError() && instance.Accept(validator);
}

TaskSpec task() {
  TaskSpec task;
  task.message = "Mend it.";
  task.background = {"b"};
  task.gates = {{"unit", "The unit tests pass", {"make", "check"}, 60'000, true, true}};
  task.expected_outputs = {{"report", "file", "A report", "dist/report.txt", true}};
  task.evidence = {{"changed", "file-change", "Something changed", true}};
  task.memory = {
      {"refl_1", "task_0", "", {"event_1"}, "testing", "s", "g", 90, 80, 2, "2026-01-01T00:00:00Z"}};
  task.instructions = {{"file rules.md", "Write plainly."}};
  task.checkpoint = Checkpoint{1, "2026-01-01T00:00:00Z", "parser", json::Value::object({{"left", 2}})};
  return task;
}

TEST_CASE("an envelope follows the schema that adapters get, and a changed one does not") {
  TaskEnvelopeInput input = envelope_input();
  input.task = task();
  input.commit_policy = "required";
  input.worktree_path = "/home/op/\xff";
  json::Value document = envelope_of(input);
  CHECK(valid("task-envelope.v1", json::write(document)));
  CHECK(valid("task-envelope.v1", json::write(envelope_of(envelope_input()))));
  document.set("more", 1);
  CHECK_FALSE(valid("task-envelope.v1", json::write(document)));
}

TEST_CASE("a render context follows its schema, and there is none when nothing is given") {
  CHECK(valid("render-context.v1", render_context(task())));
  CHECK_FALSE(valid("render-context.v1", "{}"));
  CHECK(render_context(envelope_input().task).empty());
}

}  // namespace
}  // namespace hitchrail::manifest::test
