#include <algorithm>
#include <array>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::string_view kSchema = "task-envelope/v1";
constexpr std::string_view kCompletionSchema = "completion-result/v1";
constexpr std::size_t kId = 160;
constexpr std::size_t kShort = 500;
constexpr std::size_t kChunk = 4000;
constexpr std::size_t kMaxScope = 4096;

Error task_error(const char* code, std::string detail, std::string remedy) {
  return Error{ErrorClass::usage, code, "read task", "message", std::move(detail), std::move(remedy)};
}

std::string first_line(std::string_view message) {
  std::size_t at = 0;
  while (at < message.size()) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const std::vector<std::string> line = as_set({std::string(message.substr(at, end - at))});
    if (!line.empty()) {
      return cut_code_points(line.front(), kShort);
    }
    at = end + 1;
  }
  return {};
}

// A text is never cut: what is over a chunk's size goes on in the next entry.
json::Value chunked(const std::string& field, const std::vector<std::string>& texts, std::size_t max_entries,
                    Fields& fields) {
  std::vector<json::Value> out;
  for (const std::string& text : texts) {
    std::string_view rest = text;
    fields.text(field, text, kChunk * 4 * max_entries);
    while (!rest.empty() && out.size() <= max_entries) {
      std::string part = cut_code_points(rest, kChunk);
      rest.remove_prefix(part.size());
      out.emplace_back(std::move(part));
    }
  }
  fields.at_most(field, out.size(), max_entries);
  return json::Value::array(std::move(out));
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
  if (input.branch.size() > kShort || base.size() > kShort || input.repo.size() > kShort) {
    fields.fail("workspace.branch", "names of repository and branches have at most 500 bytes");
  }
  if (!input.baseline.is_object()) {
    fields.fail("workspace.baseline", "the baseline is missing");
  }
  return object_of(
      {{"workspaceId", fields.text("workspace.workspaceId", bounded_workspace_id(input.workspace_id), kId)},
       {"worktreeId", fields.text("workspace.worktreeId", input.worktree_id, kId)},
       {"repo", name("repo", input.repo)},
       {"branch", name("branch", input.branch)},
       {"baseBranch", name("baseBranch", base)},
       {"resolvedBaseCommit", text_or_null(input.resolved_base_commit)},
       {"worktreePath", fields.path("workspace.worktreePath", input.worktree_path)},
       {"baseline", input.baseline}});
}

std::vector<SideEffect> default_effects(const TaskEnvelopeInput& input) {
  std::vector<SideEffect> out = {{"filesystem-write", input.worktree_path},
                                 {"process-execute", input.worktree_path}};
  if (input.commit_policy != "forbidden") {
    out.push_back({"git-commit", input.worktree_path});
  }
  if (input.network) {
    out.push_back({"network-egress", "sandbox policy"});
  }
  for (const Requirement& artifact :
       evaluate_requirements(input.runtime_manifest, {"artifact.write"}, true)) {
    if (artifact.satisfied) {
      out.push_back({"artifact-write", input.worktree_path});
    }
  }
  return out;
}

json::Value side_effects(const TaskEnvelopeInput& input, Fields& fields) {
  const std::vector<SideEffect> effects =
      input.side_effects.empty() ? default_effects(input) : input.side_effects;
  fields.at_most("allowedSideEffects", effects.size(), 32);
  bool commits = false;
  std::vector<json::Value> out;
  for (const SideEffect& effect : effects) {
    fields.one_of("allowedSideEffects.kind", effect.kind,
                  {"filesystem-write", "process-execute", "network-egress", "git-commit", "external-write",
                   "artifact-write", "task-mutate"});
    if (effect.scope.empty() || effect.scope.size() > kMaxScope) {
      fields.fail("allowedSideEffects.scope", "1 to 4096 bytes are needed");
    }
    commits = commits || effect.kind == "git-commit";
    out.push_back(json::Value::object({{"kind", effect.kind}, {"scope", path_value(effect.scope)}}));
  }
  if (input.commit_policy == "required" && !commits) {
    fields.fail("allowedSideEffects", "a commit is required, and git-commit is not allowed");
  }
  if (input.commit_policy == "forbidden" && commits) {
    fields.fail("allowedSideEffects", "commits are forbidden, and git-commit is allowed");
  }
  return json::Value::array(std::move(out));
}

json::Value described(const char* id, const char* kind, const char* description) {
  return json::Value::object({{"id", id}, {"kind", kind}, {"description", description}, {"required", true}});
}

json::Value expected_outputs(bool commit_required) {
  std::vector<json::Value> out = {
      described("completion-summary", "text", "What was done, in the final message")};
  if (commit_required) {
    out.push_back(described("git-commit", "commit", "At least one commit on the branch of the launch"));
  }
  return json::Value::array(std::move(out));
}

json::Value completion_contract(bool commit_required) {
  std::vector<json::Value> out = {
      described("terminal-state", "provider-output", "The provider's own terminal record of the work")};
  if (commit_required) {
    out.push_back(described("commit", "commit", "A commit that descends from the launch's HEAD"));
  }
  return json::Value::object(
      {{"schemaVersion", kCompletionSchema}, {"evidenceRequirements", json::Value::array(std::move(out))}});
}

json::Value runtime_reference(const json::Value& manifest) {
  json::Value out = json::Value::object();
  for (const char* name : {"schemaVersion", "digest", "provider", "adapter", "protocolVersion"}) {
    out.set(name, manifest.get(name));
  }
  return out;
}

}  // namespace

Status check_task_message(std::string_view message) {
  if (message.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos) {
    return task_error("task-empty", "the message has no text",
                      "give it by -m TEXT, --task FILE or on standard input");
  }
  if (message.size() > max_task_bytes) {
    return task_error("task-too-large",
                      std::to_string(message.size()) + " bytes, at most " + std::to_string(max_task_bytes),
                      "put the bulk into a file of the worktree and name that file in the message");
  }
  if (!is_valid_utf8(message)) {
    return task_error("task-invalid-utf8", "the message is not valid UTF-8",
                      "convert it, for example with iconv");
  }
  if (message.find('\x7f') != std::string_view::npos) {
    return task_error("task-has-del", "the message has the character U+007F", "remove it: tr -d '\\177'");
  }
  if (message.find('\0') != std::string_view::npos) {
    return task_error("task-has-nul", "the message has the character U+0000", "remove it: tr -d '\\000'");
  }
  return {};
}

std::string effective_commit_policy(std::string_view command_line, const TaskSpec& task) {
  if (!command_line.empty()) {
    return std::string(command_line);
  }
  return task.commit_policy.empty() ? "allowed" : task.commit_policy;
}

Result<json::Value> build_task_envelope(const TaskEnvelopeInput& input) {
  HR_CHECK(check_task_message(input.message));
  HR_CHECK(check_runtime_manifest(input.runtime_manifest));
  Fields fields;
  fields.one_of("commitPolicy", input.commit_policy, {"forbidden", "allowed", "required"});
  const bool commit_required = input.commit_policy == "required";
  const std::string title = input.title.empty() ? first_line(input.message) : input.title;
  if (cut_code_points(title, kShort) != title) {
    fields.fail("subject.title", "at most 500 characters");
  }
  json::Value subject =
      object_of({{"id", fields.text("subject.id", input.task_id, kId)},
                 {"title", fields.text("subject.title", title, kShort * 4)},
                 {"objective", title},
                 {"message", input.message},
                 {"background", chunked("subject.background", input.background, 64, fields)},
                 {"constraints", chunked("subject.constraints", input.constraints, 128, fields)},
                 {"acceptanceCriteria",
                  chunked("subject.acceptanceCriteria", input.acceptance_criteria, 256, fields)}});
  json::Value attempt = json::Value::object({{"id", fields.text("attempt.id", input.attempt_id, kId)},
                                             {"createdAt", iso8601(input.created_at_ms)}});
  json::Value out = object_of({{"schemaVersion", kSchema},
                               {"subject", std::move(subject)},
                               {"attempt", std::move(attempt)},
                               {"workspace", workspace_section(input, fields)},
                               {"commitPolicy", input.commit_policy},
                               {"allowedSideEffects", side_effects(input, fields)},
                               {"expectedOutputs", expected_outputs(commit_required)},
                               {"verificationGates", json::Value::array()},
                               {"launchManifest", runtime_reference(input.runtime_manifest)},
                               {"completionContract", completion_contract(commit_required)},
                               {"conversation", input.conversation}});
  HR_CHECK(fields.status());
  HR_TRY(digest, seal_document(out));
  (void)digest;
  return out;
}

Status check_task_envelope(const json::Value& document) {
  HR_CHECK(
      check_shape(document, kSchema,
                  {"schemaVersion", "subject", "attempt", "workspace", "commitPolicy", "allowedSideEffects",
                   "expectedOutputs", "verificationGates", "launchManifest", "completionContract", "digest"},
                  {"conversation"}));
  HR_CHECK(check_task_message(document.get("subject").get("message").as_string()));
  for (const char* name : {"id", "title", "objective"}) {
    if (document.get("subject").get(name).as_string().empty()) {
      return invalid_field(std::string("subject.") + name, "the member is missing");
    }
  }
  if (document.get("launchManifest").get("digest").as_string().empty()) {
    return invalid_field("launchManifest.digest", "the member is missing");
  }
  return {};
}

Result<std::string> envelope_material_digest(const json::Value& document) {
  constexpr std::array<std::string_view, 4> kWhen = {"attempt", "subject.id", "workspace.baseline.capturedAt",
                                                     "launchManifest.digest"};
  return material_digest(document, kWhen);
}

Result<json::Value> build_transport(const json::Value& envelope, std::string_view provider,
                                    std::string_view content) {
  HR_CHECK(check_task_envelope(envelope));
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
