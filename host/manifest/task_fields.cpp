#include "manifest/task_fields.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "manifest/gate_command.hpp"
#include "manifest/task_bounds.hpp"

namespace hitchrail::manifest {
namespace {

using yaml::Fields;
using yaml::Node;

constexpr std::size_t kToken = 160;

// Reads the fields that yaml::Fields has no rule for: texts of any length with line feeds, ids, paths.
class TaskReader {
 public:
  explicit TaskReader(yaml::Reader& reader) : reader_(&reader) {}

  // Any scalar but nothing; numbers and words are text here.
  std::string prose(const Node& node, const std::string& name) {
    if (node.kind != yaml::Kind::scalar) {
      reader_->fail(node.at, "task-type", "`" + name + "` must be text",
                    "after `NAME: |` text is kept as it is");
    } else if (node.text.find_first_not_of(" \t\r\n") == std::string::npos) {
      reader_->fail(node.at, "task-bounds", "`" + name + "` has no text", "write it or remove it");
    }
    return node.text;
  }
  std::string prose(Fields& fields, std::string_view key) {
    if (const Node* node = fields.find(key)) {
      return prose(*node, fields.name(key));
    }
    reader_->fail(fields.mark(key), "task-missing-field", "the field `" + fields.name(key) + "` is missing");
    return {};
  }
  std::string optional_prose(Fields& fields, std::string_view key) {
    return fields.has(key) ? prose(fields, key) : std::string();
  }
  // The items may be of any length: what is over one entry's size goes on in the next.
  std::vector<std::string> proses(Fields& fields, std::string_view key, std::size_t max_entries) {
    std::vector<std::string> out;
    const Node* node = fields.find(key);
    if (node == nullptr) {
      return out;
    }
    const std::string name = fields.name(key);
    if (node->kind != yaml::Kind::sequence) {
      reader_->fail(node->at, "task-type", "`" + name + "` must be a list of texts",
                    "put `- ` before each of them");
      return out;
    }
    for (std::size_t i = 0; i < node->items.size() && !reader_->failed(); ++i) {
      out.push_back(prose(node->items[i], name + "[" + std::to_string(i) + "]"));
    }
    entries(node->at, name, out, max_entries);
    return out;
  }
  void entries(yaml::Mark at, const std::string& name, const std::vector<std::string>& texts,
               std::size_t max_entries) {
    if (const std::size_t count = split_texts(texts).size(); count > max_entries) {
      reader_->fail(at, "task-bounds",
                    "`" + name + "` comes to " + std::to_string(count) + " entries of up to " +
                        std::to_string(bounds::chunk) + " characters, at most " + std::to_string(max_entries),
                    "put the bulk into a file of the worktree and name that file");
    }
  }
  std::string id(Fields& fields, std::set<std::string>& seen) {
    std::string id = fields.text("id", {.max = bounds::id});
    if (!reader_->failed() && !valid_task_id(id)) {
      reader_->fail(fields.mark("id"), "task-bounds", "`" + fields.name("id") + "` has other characters",
                    "a letter or digit, then letters, digits, `.`, `_` and `-`");
    } else if (!reader_->failed() && !seen.insert(id).second) {
      reader_->fail(fields.mark("id"), "task-duplicate-id",
                    "`" + fields.name("id") + "`: the id " + id + " stands already above", "choose another");
    }
    return id;
  }
  std::string time(Fields& fields, std::string_view key) {
    std::string text = fields.text(key, {.max = 40});
    const std::string_view shape = "dddd-dd-ddTdd:dd:dd";
    bool good = text.size() > shape.size() && text.back() == 'Z';
    for (std::size_t i = 0; good && i < text.size() - 1; ++i) {
      const bool digit = text[i] >= '0' && text[i] <= '9';
      good = i >= shape.size() ? digit || (i == shape.size() && text[i] == '.' && i + 2 < text.size())
                               : (shape[i] == 'd' ? digit : text[i] == shape[i]);
    }
    if (!reader_->failed() && !good) {
      reader_->fail(fields.mark(key), "task-bounds", "`" + fields.name(key) + "` is not a time",
                    "as 2026-01-31T10:00:00Z, in quotes");
    }
    return text;
  }
  void fail(yaml::Mark at, std::string code, std::string detail, std::string remedy) {
    reader_->fail(at, std::move(code), std::move(detail), std::move(remedy));
  }
  [[nodiscard]] bool failed() const { return reader_->failed(); }

 private:
  yaml::Reader* reader_;
};

std::vector<SideEffect> side_effects(Fields& root) {
  std::vector<SideEffect> out;
  for (Fields& fields : root.mappings("sideEffects", {"kind", "scope"}, bounds::effects)) {
    SideEffect effect;
    effect.kind = fields.choice("kind", {"filesystem-write", "process-execute", "network-egress",
                                         "git-commit", "external-write", "artifact-write", "task-mutate"});
    effect.scope = fields.text("scope", {.max = bounds::scope});
    out.push_back(std::move(effect));
  }
  return out;
}

ExpectedOutput expected_output(Fields& fields, TaskReader& in, std::set<std::string>& seen) {
  ExpectedOutput output;
  output.id = in.id(fields, seen);
  output.kind = fields.choice("kind", {"text", "file", "artifact", "commit", "other"});
  output.description = fields.text("description", {.max = bounds::text, .lines = true});
  output.path = fields.optional_text("path", {.max = bounds::scope});
  output.required = fields.optional_boolean("required").value_or(true);
  const bool in_a_file = output.kind == "file" || output.kind == "artifact";
  if (in.failed()) {
    return output;
  }
  if (fields.has("path") && (!in_a_file || !valid_output_path(output.path))) {
    in.fail(fields.mark("path"), "task-output-path",
            in_a_file ? "`" + fields.name("path") + "` is not a path below the worktree"
                      : "`" + fields.name("path") + "`: only a file or an artifact has one",
            in_a_file ? "relative and without `.` and `..`, as dist/report.txt" : "remove it");
  } else if (!fields.has("path") && in_a_file && output.required) {
    in.fail(fields.mark("id"), "task-output-path",
            "`" + fields.name("path") + "` is missing: without it nobody could tell whether it is there",
            "name the file below the worktree, or say `required: false`");
  }
  return output;
}

std::vector<ExpectedOutput> expected_outputs(Fields& root, TaskReader& in) {
  std::vector<ExpectedOutput> out;
  std::set<std::string> seen;
  for (Fields& fields :
       root.mappings("expectedOutputs", {"id", "kind", "description", "path", "required"}, bounds::outputs)) {
    out.push_back(expected_output(fields, in, seen));
  }
  return out;
}

Gate gate(Fields& fields, TaskReader& in, std::set<std::string>& seen) {
  Gate gate;
  gate.id = in.id(fields, seen);
  gate.description = fields.text("description", {.max = bounds::text, .lines = true});
  gate.required = fields.optional_boolean("required").value_or(true);
  gate.evidence_required = fields.optional_boolean("evidenceRequired").value_or(true);
  if (fields.has("command")) {
    gate.argv = fields.texts(
        "command", {.min_items = 1, .max_items = bounds::argv, .max = bounds::argument, .unique = false});
    if (!gate.argv.empty() && !names_program(gate.argv)) {
      in.fail(fields.mark("command"), "task-bounds", "`" + fields.name("command") + "` names no program",
              "a program and its arguments, one list item each; only NAME=VALUE may stand before it");
    }
  }
  const auto timeout = fields.optional_integer("timeoutMs", bounds::min_timeout_ms, bounds::max_timeout_ms);
  if (timeout && !fields.has("command")) {
    in.fail(fields.mark("timeoutMs"), "task-bounds",
            "`" + fields.name("timeoutMs") + "` is of a command, and there is none", "give `command` too");
  }
  gate.timeout_ms = static_cast<std::uint64_t>(timeout.value_or(static_cast<std::int64_t>(gate.timeout_ms)));
  return gate;
}

std::vector<EvidenceRequirement> evidence(Fields& root, TaskReader& in) {
  std::vector<EvidenceRequirement> out;
  std::set<std::string> seen;
  for (Fields& fields :
       root.mappings("evidenceRequirements", {"id", "kind", "description", "required"}, bounds::evidence)) {
    EvidenceRequirement one;
    one.id = in.id(fields, seen);
    one.kind = fields.choice("kind", {"provider-output", "process-exit", "stream-event", "callback",
                                      "verification", "file-change", "artifact", "commit", "other"});
    one.description = fields.text("description", {.max = bounds::text, .lines = true});
    one.required = fields.optional_boolean("required").value_or(true);
    out.push_back(std::move(one));
  }
  return out;
}

Memory memory(Fields& fields, TaskReader& in) {
  Memory memory;
  memory.reflection_id = fields.text("reflectionId", {.max = kToken});
  memory.source_task_id = fields.optional_text("sourceTaskId", {.max = kToken});
  memory.source_run_id = fields.optional_text("sourceRunId", {.max = kToken});
  memory.source_event_ids =
      fields.texts("sourceEventIds", {.max_items = bounds::source_events, .max = kToken});
  memory.category = fields.text("category", {.max = kToken});
  memory.summary = fields.text("summary", {.max = bounds::chunk, .lines = true});
  memory.guidance = fields.text("guidance", {.max = bounds::chunk, .lines = true});
  memory.confidence_percent = fields.optional_integer("confidencePercent", 0, 100).value_or(0);
  memory.relevance_percent = fields.optional_integer("relevancePercent", 0, 100).value_or(0);
  memory.retrieval_count = fields.optional_integer("retrievalCount", 0, 1'000'000'000).value_or(0);
  memory.retrieved_at = in.time(fields, "retrievedAt");
  return memory;
}

Checkpoint checkpoint(Fields fields, TaskReader& in) {
  Checkpoint checkpoint;
  checkpoint.resume_count = fields.optional_integer("resumeCount", 0, 1'000'000).value_or(0);
  checkpoint.saved_at = in.time(fields, "savedAt");
  checkpoint.step = fields.text("step", {.max = bounds::short_characters});
  if (const Node* state = fields.find("state")) {
    checkpoint.state = yaml::to_json(*state);
    if (state->kind != yaml::Kind::mapping) {
      in.fail(state->at, "task-type", "`" + fields.name("state") + "` must be a mapping", "");
    } else if (json::write(checkpoint.state).size() > bounds::checkpoint_state) {
      in.fail(state->at, "task-bounds",
              "`" + fields.name("state") + "` has more than " + std::to_string(bounds::checkpoint_state) +
                  " bytes as JSON",
              "keep what is needed to go on, and name a file for the rest");
    }
  } else {
    checkpoint.state = json::Value::object();
  }
  return checkpoint;
}

json::Value budget(Fields& root, TaskReader& in) {
  const Node* node = root.find("budget");
  if (node != nullptr && node->kind != yaml::Kind::mapping) {
    in.fail(node->at, "task-type", "`budget` must be a mapping",
            "as `budget: {limits: {runtimeSeconds: 600}}`");
  }
  return node != nullptr ? yaml::to_json(*node) : json::Value();
}

// What a Markdown file's body holds may not stand in its front matter too.
void read_body(Fields& root, TaskReader& in, const MarkdownBody& body, TaskSpec& task) {
  for (const std::string_view key : {"message", "background", "constraints", "acceptanceCriteria"}) {
    if (root.has(key)) {
      in.fail(root.mark(key), "task-duplicate-field",
              "`" + std::string(key) + "` stands in the body of a Markdown task",
              "write it below the front matter");
    }
  }
  if (root.has("title") && !body.title.empty()) {
    in.fail(root.mark("title"), "task-duplicate-field", "`title` is given by the heading `# …` too",
            "keep one of the two");
  }
  task.title =
      body.title.empty() ? root.optional_text("title", {.max = 4 * bounds::short_characters}) : body.title;
  task.message = body.message;
  task.background = body.background;
  task.constraints = body.constraints;
  task.acceptance_criteria = body.acceptance_criteria;
  if (task.message.empty()) {
    in.fail({body.message_line, 1}, "task-empty", "there is no text before the first section",
            "write the message there");
  }
  in.entries({1, 1}, "Background", task.background, bounds::background);
  in.entries({1, 1}, "Constraints", task.constraints, bounds::constraints);
  in.entries({1, 1}, "Acceptance criteria", task.acceptance_criteria, bounds::criteria);
}

void read_texts(Fields& root, TaskReader& in, TaskSpec& task) {
  task.title = root.optional_text("title", {.max = 4 * bounds::short_characters});
  task.message = in.prose(root, "message");
  task.background = in.proses(root, "background", bounds::background);
  task.constraints = in.proses(root, "constraints", bounds::constraints);
  task.acceptance_criteria = in.proses(root, "acceptanceCriteria", bounds::criteria);
}

}  // namespace

TaskSpec read_task_fields(yaml::Reader& reader, const yaml::Document& document, const MarkdownBody* body) {
  TaskReader in(reader);
  Fields root(
      reader, document.root, "",
      {"schemaVersion", "title", "message", "background", "constraints", "acceptanceCriteria", "commitPolicy",
       "sideEffects", "expectedOutputs", "verificationGates", "verificationTimeoutMs", "evidenceRequirements",
       "memory", "instructions", "checkpoint", "readiness", "budget", "phase"});
  TaskSpec task;
  if (reader.failed()) {
    return task;
  }
  if (root.has("schemaVersion")) {
    root.choice("schemaVersion", {"task-file/v1"});
  }
  body != nullptr ? read_body(root, in, *body, task) : read_texts(root, in, task);
  if (root.has("commitPolicy")) {
    task.commit_policy = root.choice("commitPolicy", {"forbidden", "allowed", "required"});
  }
  if (root.has("sideEffects")) {
    task.side_effects = side_effects(root);
  }
  task.expected_outputs = expected_outputs(root, in);
  std::set<std::string> seen;
  for (Fields& fields : root.mappings(
           "verificationGates", {"id", "description", "command", "timeoutMs", "required", "evidenceRequired"},
           bounds::gates)) {
    task.gates.push_back(gate(fields, in, seen));
  }
  if (const auto total =
          root.optional_integer("verificationTimeoutMs", bounds::min_timeout_ms, bounds::max_gates_ms)) {
    task.gates_timeout_ms = static_cast<std::uint64_t>(*total);
  }
  task.evidence = evidence(root, in);
  for (Fields& fields :
       root.mappings("memory",
                     {"reflectionId", "sourceTaskId", "sourceRunId", "sourceEventIds", "category", "summary",
                      "guidance", "confidencePercent", "relevancePercent", "retrievalCount", "retrievedAt"},
                     bounds::memory)) {
    task.memory.push_back(memory(fields, in));
  }
  if (const std::string text = in.optional_prose(root, "instructions"); !text.empty()) {
    task.instructions.push_back({"task file " + escape_visible(document.file), text});
  }
  if (root.has("checkpoint")) {
    task.checkpoint = checkpoint(root.mapping("checkpoint", {"resumeCount", "savedAt", "step", "state"}), in);
  }
  task.readiness_required = root.texts("readiness", {.max_items = bounds::readiness, .max = bounds::id});
  task.budget = budget(root, in);
  task.phase = root.optional_text("phase", {.max = bounds::id});
  return task;
}

}  // namespace hitchrail::manifest
