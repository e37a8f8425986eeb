#include <algorithm>
#include <array>
#include <utility>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "manifest/envelope_parts.hpp"
#include "manifest/fields.hpp"
#include "manifest/task_bounds.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::string_view kSchema = "task-envelope/v1";
constexpr std::string_view kCompletionSchema = "completion-result/v1";
constexpr std::string_view kOwnConstraint =
    "Operate only inside the worktree named in this envelope; nothing outside it is part of the task.";
constexpr std::size_t kId = 160;

Error task_error(const char* code, const char* field, std::string detail, std::string remedy) {
  return Error{ErrorClass::usage, code, "build the task envelope", field, std::move(detail),
               std::move(remedy)};
}

std::string first_line(std::string_view message) {
  std::size_t at = 0;
  while (at < message.size()) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const std::vector<std::string> line = as_set({std::string(message.substr(at, end - at))});
    if (!line.empty()) {
      return cut_code_points(line.front(), bounds::short_characters);
    }
    at = end + 1;
  }
  return {};
}

// A text is never cut: what is over a chunk's size goes on in the next entry.
json::Value chunked(const std::string& field, const std::vector<std::string>& texts, std::size_t max_entries,
                    Fields& fields) {
  for (const std::string& text : texts) {
    fields.text(field, text, max_task_bytes);
  }
  const std::vector<std::string> parts = split_texts(texts);
  fields.at_most(field, parts.size(), max_entries);
  return string_array(parts);
}

std::string bounded_workspace_id(const std::string& id) {
  if (id.size() <= kId) {
    return id;
  }
  // 143 bytes at most: a character is not cut in half.
  std::size_t end = 143;
  while (end > 0 && (static_cast<unsigned char>(id[end]) & 0xc0U) == 0x80U) {
    --end;
  }
  std::string head = id.substr(0, end);
  while (!head.empty() && head.back() == ' ') {
    head.pop_back();
  }
  return head + "~" + sha256_hex(id).substr(0, 16);
}

json::Value text_or_null(const std::string& text) {
  return text.empty() ? json::Value() : json::Value(text);
}

json::Value workspace_section(const TaskEnvelopeInput& input, Fields& fields) {
  const std::string& base = input.base_branch.empty() ? input.branch : input.base_branch;
  const auto name = [&](const char* field, const std::string& value) {
    return value.empty() ? json::Value() : fields.path(std::string("workspace.") + field, value);
  };
  for (const auto& [field, value] :
       {std::pair{"workspace.repo", &input.repo}, std::pair{"workspace.branch", &input.branch},
        std::pair{"workspace.baseBranch", &base}}) {
    if (value->size() > max_name_bytes) {
      fields.fail(field, "at most 500 bytes");
    }
  }
  if (!input.baseline.is_object()) {
    fields.fail("workspace.baseline", "the baseline is missing");
  }
  return object_of(
      {{"workspaceId", fields.text("workspace.workspaceId", bounded_workspace_id(input.workspace_id), kId)},
       {"worktreeId", fields.text("workspace.worktreeId", input.worktree_id, kId)},
       {"worktreeManifestId", text_or_null(input.worktree_manifest_id)},
       {"ownershipLeaseId", text_or_null(input.ownership_lease_id)},
       {"ownershipAttemptId", text_or_null(input.ownership_attempt_id)},
       {"repo", name("repo", input.repo)},
       {"branch", name("branch", input.branch)},
       {"baseBranch", name("baseBranch", base)},
       {"resolvedBaseCommit", text_or_null(input.resolved_base_commit)},
       {"baseResolutionSource", text_or_null(input.base_resolution_source)},
       {"worktreePath", fields.path("workspace.worktreePath", input.worktree_path)},
       {"baseline", input.baseline}});
}

Result<json::Value> side_effects(const TaskEnvelopeInput& input, std::vector<Finding>& warnings) {
  const std::vector<SideEffect> effects = effective_effects(input, warnings);
  bool commits = false;
  std::vector<json::Value> out;
  for (const SideEffect& effect : effects) {
    commits = commits || effect.kind == "git-commit";
    out.push_back(json::Value::object({{"kind", effect.kind}, {"scope", path_value(effect.scope)}}));
  }
  if (input.commit_policy == "required" && !commits) {
    return task_error(
        "task-commit-effect-missing", "sideEffects",
        "a commit is required, and no git-commit side effect is left",
        "add `{kind: git-commit, scope: .}` to the task's sideEffects, or run with --commits allowed");
  }
  return json::Value::array(std::move(out));
}

json::Value described(std::string_view id, std::string_view kind, std::string_view description,
                      bool required) {
  return json::Value::object(
      {{"id", id}, {"kind", kind}, {"description", description}, {"required", required}});
}

bool has_id(const std::vector<json::Value>& list, std::string_view id) {
  return std::any_of(list.begin(), list.end(),
                     [&](const json::Value& value) { return value.get("id").as_string() == id; });
}

Result<json::Value> expected_outputs(const TaskEnvelopeInput& input) {
  const std::vector<ExpectedOutput>& wanted = input.task.expected_outputs;
  const auto named = [&](std::string_view id) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const auto& output) { return output.id == id; });
  };
  const bool commit_wanted = std::any_of(wanted.begin(), wanted.end(), [](const auto& output) {
    return output.kind == "commit" && output.required;
  });
  if (input.commit_policy == "forbidden" && commit_wanted) {
    return task_error("task-commit-conflict", "expectedOutputs",
                      "a commit is a required output, and commits are forbidden",
                      "run with --commits allowed, or make that output `required: false`");
  }
  std::vector<json::Value> out;
  if (!named("completion-summary")) {
    out.push_back(described("completion-summary", "text", "What was done, in the final message", true));
  }
  for (const ExpectedOutput& output : wanted) {
    out.push_back(described(output.id, output.kind, output.description, output.required));
    if (!output.path.empty()) {
      out.back().set("path", path_value(output.path));
    }
  }
  if (input.commit_policy == "required" && !commit_wanted) {
    if (has_id(out, "git-commit")) {
      return task_error("task-duplicate-id", "expectedOutputs",
                        "git-commit is the id of the commit that is required", "choose another");
    }
    out.push_back(described("git-commit", "commit", "At least one commit on the branch of the launch", true));
  }
  if (out.size() > bounds::outputs) {
    return task_error(
        "task-bounds", "expectedOutputs",
        std::to_string(out.size()) + " with those of every task, at most " + std::to_string(bounds::outputs),
        "ask for fewer");
  }
  return json::Value::array(std::move(out));
}

json::Value verification_gates(const TaskEnvelopeInput& input, Fields& fields) {
  std::vector<json::Value> out;
  for (const Gate& gate : input.task.gates) {
    json::Value one = json::Value::object({{"id", gate.id},
                                           {"description", gate.description},
                                           {"required", gate.required},
                                           {"evidenceRequired", gate.evidence_required}});
    if (!gate.argv.empty()) {
      for (const std::string& argument : gate.argv) {
        fields.optional_text("verificationGates.command", argument, bounds::argument);
        fields.no_secret("verificationGates." + gate.id + ".command", argument);
      }
      one.set("command",
              json::Value::object({{"argv", string_array(gate.argv)}, {"timeoutMs", gate.timeout_ms}}));
    }
    out.push_back(std::move(one));
  }
  fields.at_most("verificationGates", out.size(), bounds::gates);
  return json::Value::array(std::move(out));
}

Result<json::Value> completion_contract(const TaskEnvelopeInput& input) {
  std::vector<json::Value> out = {
      described("terminal-state", "provider-output", "The provider's own terminal record of the work", true)};
  const std::vector<Gate>& gates = input.task.gates;
  if (!gates.empty()) {
    const bool required =
        std::any_of(gates.begin(), gates.end(), [](const Gate& gate) { return gate.required; });
    out.push_back(described("verification", "verification", "The verification gates passed", required));
  }
  if (input.commit_policy == "required") {
    out.push_back(described("commit", "commit", "A commit that descends from the launch's HEAD", true));
  }
  for (const EvidenceRequirement& one : input.task.evidence) {
    if (has_id(out, one.id)) {
      return task_error("task-duplicate-id", "evidenceRequirements",
                        one.id + " is the id of a requirement of every task of this kind", "choose another");
    }
    out.push_back(described(one.id, one.kind, one.description, one.required));
  }
  if (out.size() > bounds::evidence) {
    return task_error(
        "task-bounds", "evidenceRequirements",
        std::to_string(out.size()) + " with those of every task, at most " + std::to_string(bounds::evidence),
        "ask for fewer");
  }
  return json::Value::object(
      {{"schemaVersion", kCompletionSchema}, {"evidenceRequirements", json::Value::array(std::move(out))}});
}

json::Value memory_section(const TaskEnvelopeInput& input, Fields& fields) {
  if (input.task.memory.empty()) {
    return {};
  }
  std::vector<json::Value> out;
  for (const Memory& memory : input.task.memory) {
    out.push_back(object_of({{"reflectionId", fields.text("memory.reflectionId", memory.reflection_id, kId)},
                             {"sourceTaskId", text_or_null(memory.source_task_id)},
                             {"sourceRunId", text_or_null(memory.source_run_id)},
                             {"sourceEventIds", string_array(memory.source_event_ids)},
                             {"category", fields.text("memory.category", memory.category, kId)},
                             {"summary", fields.text("memory.summary", memory.summary, bounds::chunk)},
                             {"guidance", fields.text("memory.guidance", memory.guidance, bounds::chunk)},
                             {"confidencePercent", memory.confidence_percent},
                             {"relevancePercent", memory.relevance_percent},
                             {"retrievalCount", memory.retrieval_count},
                             {"retrievedAt", fields.text("memory.retrievedAt", memory.retrieved_at, kId)}}));
  }
  fields.at_most("memory", out.size(), bounds::memory);
  return json::Value::array(std::move(out));
}

std::vector<std::string> all_constraints(const TaskSpec& task) {
  std::vector<std::string> out;
  for (const InstructionText& one : task.instructions) {
    out.push_back(one.content);
  }
  out.insert(out.end(), task.constraints.begin(), task.constraints.end());
  out.emplace_back(kOwnConstraint);
  return out;
}

json::Value subject_section(const TaskEnvelopeInput& input, Fields& fields) {
  const TaskSpec& task = input.task;
  const std::string title = task.title.empty() ? first_line(task.message) : task.title;
  fields.no_secret("subject.title", task.title);  // a title is shown and listed; the message is the prompt
  return object_of(
      {{"id", fields.text("subject.id", input.task_id, kId)},
       {"title", fields.text("subject.title", title, bounds::short_characters * 4)},
       {"objective", title},
       {"message", task.message},
       {"background", chunked("subject.background", task.background, bounds::background, fields)},
       {"constraints", chunked("subject.constraints", all_constraints(task), bounds::constraints, fields)},
       {"acceptanceCriteria",
        chunked("subject.acceptanceCriteria", task.acceptance_criteria, bounds::criteria, fields)},
       {"memory", memory_section(input, fields)}});
}

json::Value runtime_reference(const json::Value& manifest) {
  json::Value out = json::Value::object();
  for (const char* name : {"schemaVersion", "digest", "provider", "adapter", "protocolVersion"}) {
    out.set(name, manifest.get(name));
  }
  return out;
}

}  // namespace

Result<TaskEnvelope> build_task_envelope(const TaskEnvelopeInput& input) {
  HR_CHECK(check_task(input.task));
  HR_CHECK(check_runtime_manifest(input.runtime_manifest));
  Fields fields;
  fields.one_of("commitPolicy", input.commit_policy, {"forbidden", "allowed", "required"});
  if (!input.base_resolution_source.empty()) {
    fields.one_of("workspace.baseResolutionSource", input.base_resolution_source,
                  {"remote", "local", "local-stale", "legacy-adopted"});
  }
  TaskEnvelope out;
  json::Value workspace = workspace_section(input, fields);
  HR_CHECK(fields.status());
  HR_TRY(effects, side_effects(input, out.warnings));
  HR_TRY(outputs, expected_outputs(input));
  HR_TRY(completion, completion_contract(input));
  json::Value attempt = json::Value::object({{"id", fields.text("attempt.id", input.attempt_id, kId)},
                                             {"createdAt", iso8601(input.created_at_ms)}});
  out.document = object_of({{"schemaVersion", kSchema},
                            {"subject", subject_section(input, fields)},
                            {"attempt", std::move(attempt)},
                            {"workspace", std::move(workspace)},
                            {"commitPolicy", input.commit_policy},
                            {"allowedSideEffects", std::move(effects)},
                            {"expectedOutputs", std::move(outputs)},
                            {"verificationGates", verification_gates(input, fields)},
                            {"launchManifest", runtime_reference(input.runtime_manifest)},
                            {"completionContract", std::move(completion)},
                            {"conversation", input.conversation}});
  HR_CHECK(fields.status());
  HR_TRY(digest, seal_document(out.document));
  (void)digest;
  return out;
}

Result<std::string> envelope_material_digest(const json::Value& document) {
  constexpr std::array<std::string_view, 5> kWhen = {"attempt", "subject.id", "workspace.ownershipAttemptId",
                                                     "workspace.baseline.capturedAt",
                                                     "launchManifest.digest"};
  return material_digest(document, kWhen);
}

Result<json::Value> build_transport(const json::Value& envelope, std::string_view provider,
                                    std::string_view content) {
  Fields fields;
  if (envelope.get("launchManifest").get("provider").as_string() != provider) {
    fields.fail("provider", "the envelope is bound to another provider");
  }
  json::Value out = json::Value::object({{"schemaVersion", "provider-task-envelope-transport/v1"},
                                         {"provider", fields.token("provider", provider)},
                                         {"taskEnvelopeDigest", envelope.get("digest")},
                                         {"callbackPosture", "harness-owned"},
                                         {"completionNormalization", "harness"},
                                         {"content", fields.text("content", content, 16u << 20)}});
  HR_CHECK(fields.status());
  return out;
}

}  // namespace hitchrail::manifest
