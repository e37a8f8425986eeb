// Task files, form by form: what is read, and what each refusal says.

#include <catch2/catch.hpp>

#include "documents.hpp"

namespace hitchrail::manifest::test {
namespace {

TaskSpec read(const std::string& text, const std::string& name) {
  const Result<TaskSpec> task = parse_task(text, TaskForm::automatic, name);
  if (task.has_error()) {
    FAIL(task.error().code << " " << task.error().object << ": " << task.error().detail);
  }
  return task.value();
}

std::string refused(const std::string& text, const std::string& name) {
  const Result<TaskSpec> task = parse_task(text, TaskForm::automatic, name);
  if (task.has_error()) {
    CHECK(task.error().kind == ErrorClass::usage);
    CHECK(task.error().operation == "read the task");
    CHECK_FALSE(task.error().remedy.empty());
    CHECK_FALSE(task.error().detail.empty());
  }
  return refusal(task);
}

const char* const kWhole = R"(schemaVersion: task-file/v1
title: Mend the parser
message: |
  Mend the parser.
  It drops the last line.
background: [It is old., "yes"]
constraints:
  - Change nothing else.
  - |
    Two
    lines
acceptanceCriteria: [The tests pass]
commitPolicy: required
sideEffects: [{kind: filesystem-write, scope: src}]
expectedOutputs:
  - {id: report, kind: file, description: What was found, path: dist/report.txt}
  - {id: note, kind: text, description: A remark, required: false}
verificationGates:
  - {id: unit, description: The unit tests pass, command: [make, check], timeoutMs: 60000}
  - {id: read, description: Somebody read it, required: false, evidenceRequired: false}
evidenceRequirements:
  - {id: changed, kind: file-change, description: Something changed}
memory:
  - reflectionId: refl_1
    sourceRunId: attempt_0
    sourceEventIds: [event_1]
    category: testing
    summary: The whole suite is slow
    guidance: Run one suite
    confidencePercent: 90
    relevancePercent: 80
    retrievalCount: 2
    retrievedAt: "2026-01-31T10:00:00Z"
instructions: Write plainly.
checkpoint:
  resumeCount: 1
  savedAt: "2026-01-31T10:00:00.5Z"
  step: parser
  state: {done: [lexer], left: 2}
readiness: [acceptance-criteria]
budget: {limits: {runtimeSeconds: 600}}
phase: implement
)";

TEST_CASE("a YAML task has every field") {
  const TaskSpec task = read(kWhole, "task.yaml");
  CHECK(task.title == "Mend the parser");
  CHECK(task.message == "Mend the parser.\nIt drops the last line.\n");
  CHECK(task.background == std::vector<std::string>{"It is old.", "yes"});
  CHECK(task.constraints == std::vector<std::string>{"Change nothing else.", "Two\nlines\n"});
  CHECK(task.acceptance_criteria == std::vector<std::string>{"The tests pass"});
  CHECK(task.commit_policy == "required");
  REQUIRE(task.side_effects);
  CHECK(task.side_effects->at(0).scope == "src");
  REQUIRE(task.expected_outputs.size() == 2);
  CHECK(task.expected_outputs[0].path == "dist/report.txt");
  CHECK_FALSE(task.expected_outputs[1].required);
  REQUIRE(task.gates.size() == 2);
  CHECK(task.gates[0].argv == std::vector<std::string>{"make", "check"});
  CHECK(task.gates[0].timeout_ms == 60'000);
  CHECK((task.gates[0].required && task.gates[0].evidence_required));
  CHECK((!task.gates[1].required && !task.gates[1].evidence_required && task.gates[1].argv.empty()));
  CHECK(task.evidence.at(0).kind == "file-change");
  CHECK(task.memory.at(0).confidence_percent == 90);
  CHECK(task.memory.at(0).source_event_ids == std::vector<std::string>{"event_1"});
  CHECK(task.instructions.at(0).content == "Write plainly.");
  CHECK(task.instructions.at(0).origin == "task file task.yaml");
  REQUIRE(task.checkpoint);
  CHECK(json::write(task.checkpoint->state) == R"({"done":["lexer"],"left":2})");
  CHECK(task.readiness_required == std::vector<std::string>{"acceptance-criteria"});
  CHECK(json::write(task.budget) == R"({"limits":{"runtimeSeconds":600}})");
  CHECK(task.phase == "implement");
}

TEST_CASE("the same task as JSON is the same task") {
  const TaskSpec task = read(
      R"({"message":"Mend it.\n","constraints":["a\tb"],"verificationGates":[{"id":"unit","description":"d",)"
      R"("command":["make"],"timeoutMs":1000,"required":false}],"commitPolicy":"forbidden"})",
      "task.json");
  CHECK(task.message == "Mend it.\n");
  CHECK(task.constraints.at(0) == "a\tb");
  CHECK(task.gates.at(0).timeout_ms == 1000);
  CHECK_FALSE(task.gates.at(0).required);
  CHECK(task.commit_policy == "forbidden");
  CHECK_FALSE(task.side_effects);
}

TEST_CASE("a Markdown task has its message and lists in the body") {
  const TaskSpec task = read(
      "---\ncommitPolicy: allowed\n---\n\n# Mend the parser\n\nIt drops\nthe last line.\n\n### Where\n\n"
      "```\n## no heading\n# nor this\n```\n\n## Background\n\nIt is old.\n\n- very\n\n## constraints\n\n- "
      "One\n"
      "* Two\n  goes on\n\n  and on\n\n## Acceptance Criteria\n\n- Tests pass\n",
      "task.md");
  CHECK(task.title == "Mend the parser");
  CHECK(task.message == "It drops\nthe last line.\n\n### Where\n\n```\n## no heading\n# nor this\n```");
  CHECK(task.background == std::vector<std::string>{"It is old.\n\n- very"});
  CHECK(task.constraints == std::vector<std::string>{"One", "Two\ngoes on\n\nand on"});
  CHECK(task.acceptance_criteria == std::vector<std::string>{"Tests pass"});
  CHECK(task.commit_policy == "allowed");
}

TEST_CASE("text is a message, byte for byte; Markdown without front matter is text") {
  for (const std::string text :
       {"# Heading\n\n## Whatever\n\n- x\n", "message: no yaml", " ---\nx", "\r\nx\r\n"}) {
    CHECK(read(text, "task.md").message == text);
    CHECK(read(text, "standard input").message == text);
    CHECK(read(text, "notes.txt").message == text);
  }
  CHECK(parse_task("message: x", TaskForm::yaml, "standard input")->message == "x");
}

TEST_CASE("what YAML has beyond plain data is refused with its place") {
  CHECK(refused("message: &a x\n", "t.yaml") == "task-anchor t.yaml:1:10");
  CHECK(refused("title: x\nmessage: *a\n", "t.yaml").substr(0, 5) == "task-");
  CHECK(refused("message: !!str x\n", "t.yaml") == "task-tag t.yaml:1:10");
  CHECK(refused("message: x\nmessage: y\n", "t.yaml") == "task-duplicate-key t.yaml:2:1");
  CHECK(refused("message: x\n<<: {title: y}\n", "t.yaml") == "task-merge-key t.yaml:2:1");
  CHECK(refused("message: x\n---\nmessage: y\n", "t.yaml").substr(0, 14) == "task-documents");
  CHECK(refused("message: \"x\n", "t.yaml").substr(0, 11) == "task-syntax");
  CHECK(refused("message: x\nconstraint: [y]\n", "t.yaml") == "task-unknown-field t.yaml:2:1");
  CHECK(refused("title: x\n", "t.yaml") == "task-missing-field t.yaml:1:1");
  CHECK(refused("[a, b]\n", "t.yaml") == "task-type t.yaml:1:1");
  CHECK(refused("", "t.yaml").substr(0, 10) == "task-empty");
  CHECK(refused("message: x\nbudget: 5\n", "t.yaml") == "task-type t.yaml:2:9");
}

TEST_CASE("JSON is read as strictly, and its fields are named") {
  CHECK(refused(R"({"message":"x","message":"y"})", "t.json") == "task-duplicate-key t.json");
  CHECK(refused(R"({"message":"x",})", "t.json") == "task-syntax t.json");
  CHECK(refused(R"({"message":"x"} {})", "t.json") == "task-syntax t.json");
  CHECK(refused(R"({"mesage":"x"})", "t.json") == "task-unknown-field t.json");
  CHECK(refused(R"({"message":5})", "t.json").empty());  // text is what is written
  CHECK(refused(R"({"message":["x"]})", "t.json") == "task-type t.json");
  const Result<TaskSpec> task =
      parse_task(R"({"message":"x","verificationGates":[{"id":"a"}]})", TaskForm::json, "t.json");
  REQUIRE(task.has_error());
  CHECK(task.error().detail.find("verificationGates[0].description") != std::string::npos);
}

TEST_CASE("10,000 levels are refused in every form, quickly and without a deep stack") {
  const std::string open(10'000, '[');
  const std::string close(10'000, ']');
  CHECK(refused("message: " + open + close, "t.yaml").substr(0, 10) == "task-depth");
  CHECK(refused("{\"message\":" + open + close + "}", "t.json") == "task-depth t.json");
  CHECK(refused("---\nbudget: " + open + close + "\n---\nx\n", "t.md").substr(0, 10) == "task-depth");
}

TEST_CASE("bytes that no task may hold are refused in every form with their line") {
  for (const std::string name : {"t.yaml", "t.json", "t.md", "t.txt"}) {
    CHECK(refused("line\nca\xff", name) == "task-invalid-utf8 " + name + ":2:3");
    CHECK(refused("line\nca\x7f", name) == "task-has-del " + name + ":2:3");
    CHECK(refused(std::string("line\nca\0", 8), name) == "task-has-nul " + name + ":2:3");
  }
  CHECK(refused("message: \"a\\x7f\"\n", "t.yaml") == "task-has-del t.yaml:1:10");
  CHECK(refused("message: \"a\\0\"\n", "t.yaml") == "task-has-nul t.yaml:1:10");
  CHECK(refused(R"({"message":"a\u007f"})", "t.json") == "task-has-del t.json");
  CHECK(refused(R"({"message":"x","budget":{"a\u0000":1}})", "t.json") == "task-key t.json");
}

TEST_CASE("a task over 1 MiB is refused whole") {
  for (const std::string name : {"t.yaml", "t.json", "t.md", "t.txt"}) {
    CHECK(refused(std::string(max_task_bytes + 1, 'x'), name) == "task-too-large " + name);
  }
  CHECK(read(std::string(max_task_bytes, 'x'), "t.txt").message.size() == max_task_bytes);
}

TEST_CASE("Markdown that is nearly a task is refused where it is not one") {
  CHECK(refused("---\ncommitPolicy: allowed\n", "t.md") == "task-front-matter t.md:1:1");
  CHECK(refused("---\nmessage: x\n---\ny\n", "t.md") == "task-duplicate-field t.md:2:10");
  CHECK(refused("---\n---\n# A\n\nx\n\n# B\n", "t.md") == "task-section t.md:7:1");
  CHECK(refused("---\n---\nx\n## Notes\n", "t.md") == "task-section t.md:4:1");
  CHECK(refused("---\n---\nx\n## Constraints\n- a\n## constraints\n- b\n", "t.md") ==
        "task-section t.md:6:1");
  CHECK(refused("---\n---\nx\n## Constraints\nprose\n", "t.md") == "task-section t.md:5:1");
  CHECK(refused("---\n---\nx\n## Constraints\n- a\n- \n", "t.md") == "task-section t.md:6:1");
  CHECK(refused("---\n---\n## Background\n\nx\n", "t.md").substr(0, 10) == "task-empty");
  CHECK(refused("---\ntitle: a\n---\n# b\n\nx\n", "t.md") == "task-duplicate-field t.md:2:8");
  CHECK(refused("---\nphase: [x]\n---\nx\n", "t.md") == "task-type t.md:2:8");
}

TEST_CASE("fields out of their bounds are refused with their place") {
  const auto with = [](const std::string& lines) { return refused("message: x\n" + lines, "t.yaml"); };
  CHECK(with("commitPolicy: maybe\n") == "task-bounds t.yaml:2:15");
  CHECK(with("sideEffects: [{kind: teleport, scope: .}]\n") == "task-bounds t.yaml:2:22");
  CHECK(with("sideEffects: [{kind: git-commit}]\n") == "task-missing-field t.yaml:2:15");
  CHECK(with("verificationGates: [{id: a/b, description: d}]\n") == "task-bounds t.yaml:2:26");
  CHECK(with("verificationGates: [{id: a, description: d}, {id: a, description: d}]\n") ==
        "task-duplicate-id t.yaml:2:51");
  CHECK(with("verificationTimeoutMs: 99\n") == "task-bounds t.yaml:2:24");
  CHECK(with("verificationTimeoutMs: 86400001\n") == "task-bounds t.yaml:2:24");
  CHECK(with("verificationGates: [{id: a, description: d, command: []}]\n") == "task-bounds t.yaml:2:54");
  for (const char* nothing :
       {"[CI=1]", "[A=b, C=d]", "[\"-\"]", "[-i, \"true\"]", "[A=b, \"-\"]", "[\"-u=x\", \"true\"]"}) {
    INFO(nothing);
    CHECK(with(std::string("verificationGates: [{id: a, description: d, command: ") + nothing + "}]\n") ==
          "task-bounds t.yaml:2:54");
  }
  CHECK(with("verificationGates: [{id: a, description: d, command: [A=b, make, -k]}]\n").empty());
  CHECK(with("verificationGates: [{id: a, description: d, timeoutMs: 1000}]\n") == "task-bounds t.yaml:2:56");
  CHECK(with("verificationGates: [{id: a, description: d, command: [x], timeoutMs: 3600001}]\n") ==
        "task-bounds t.yaml:2:70");
  CHECK(with("expectedOutputs: [{id: a, kind: file, description: d}]\n") == "task-output-path t.yaml:2:24");
  CHECK(with("expectedOutputs: [{id: a, kind: file, description: d, required: false}]\n").empty());
  for (const std::string path : {"/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/"}) {
    CHECK(with("expectedOutputs: [{id: a, kind: file, description: d, path: \"" + path + "\"}]\n") ==
          "task-output-path t.yaml:2:61");
  }
  CHECK(with("expectedOutputs: [{id: a, kind: text, description: d, path: x}]\n") ==
        "task-output-path t.yaml:2:61");
  CHECK(with("background: [\" \"]\n") == "task-bounds t.yaml:2:14");
  CHECK(with("title: \"a\\nb\"\n").substr(0, 22) == "task-control-character");
  CHECK(with("checkpoint: {savedAt: yesterday, step: s}\n") == "task-bounds t.yaml:2:23");
  std::string many = "background:\n";
  for (int i = 0; i < 65; ++i) {
    many += "  - b\n";
  }
  CHECK(with(many) == "task-bounds t.yaml:3:3");
  CHECK(with("commitPolicy: forbidden\nexpectedOutputs: [{id: c, kind: commit, description: d}]\n") ==
        "task-commit-conflict expectedOutputs");
}

}  // namespace
}  // namespace hitchrail::manifest::test
