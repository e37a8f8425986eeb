// Stage `task`: the task envelope, and the request text the adapter renders from it. Changes nothing.

#include "attempt/attempt.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

// Of a worktree that Hitchrail made: whose it is, and what it began from.
void add_managed(const WorktreeStage& worktree, const std::string& attempt_id,
                 manifest::TaskEnvelopeInput& input) {
  const json::Value& managed = worktree.manifest;
  if (managed.is_null()) {
    return;
  }
  input.worktree_manifest_id = managed.get("worktreeManifestId").as_string();
  input.ownership_lease_id = managed.get("ownershipLeaseId").as_string();
  input.ownership_attempt_id = attempt_id;
  input.base_resolution_source = managed.get("baseResolutionSource").as_string();
  if (auto base = path_text(managed.get("baseBranch")); base.has_value()) {
    input.base_branch = std::move(base).value();
  }
  if (const std::string& commit = managed.get("resolvedBaseCommit").as_string(); !commit.empty()) {
    input.resolved_base_commit = commit;
  }
}

// A phase that writes nothing has no way out either: the envelope promises what the boundary gives.
void only_look(manifest::TaskSpec& task) {
  std::vector<manifest::SideEffect> effects = {{"process-execute", "."}};
  if (task.side_effects) {
    effects = *task.side_effects;
    std::erase_if(effects,
                  [](const manifest::SideEffect& effect) { return effect.kind != "process-execute"; });
  }
  task.side_effects = std::move(effects);
}

}  // namespace

Result<TaskStage> stage_task(const Ground&, const Request& request, const ProfileStage& profile,
                             const ProbeStage& probe, const WorktreeStage& worktree,
                             const BoundaryStage& boundary, plugins::Planner& planner) {
  TaskStage stage;
  stage.attempt_id = attempt::new_attempt_id();
  stage.task_id = "task_" + sha256_hex(request.task.message).substr(0, 16);
  stage.created_unix_ms = unix_millis_now();

  manifest::TaskEnvelopeInput input;
  input.task_id = stage.task_id;
  input.task = request.task;
  input.commit_policy = manifest::effective_commit_policy(request.commit_policy, request.task);
  if (boundary.phase.read_only()) {
    only_look(input.task);
  }
  input.attempt_id = stage.attempt_id;
  input.created_at_ms = stage.created_unix_ms;
  const std::string& root = worktree.worktree.root;
  input.workspace_id = "workspace_" + sha256_hex(root).substr(0, 16);
  input.worktree_id = "worktree_" + sha256_hex(worktree.worktree.identity()).substr(0, 16);
  input.repo = worktree.worktree.common_dir;
  input.branch = worktree.baseline.branch;
  input.resolved_base_commit = worktree.baseline.head.oid;
  input.worktree_path = root;
  add_managed(worktree, stage.attempt_id, input);
  input.baseline = workspace::baseline_json(worktree.baseline);
  input.network = boundary.compiled.network != boundary::Network::none;
  input.runtime_manifest = probe.runtime_manifest;
  if (worktree.resumed) {
    json::Value conversation = json::Value::object();
    conversation.set("mode", "resume");
    conversation.set("sourceAttemptId", worktree.resumed->attempt_id);
    conversation.set("conversationId", worktree.resumed->conversation_id);
    input.conversation = std::move(conversation);
  }
  HR_TRY(envelope, manifest::build_task_envelope(input));
  stage.envelope = std::move(envelope.document);
  stage.warnings = std::move(envelope.warnings);
  HR_TRY(text, planner.render(json::write(stage.envelope), worktree.resumed ? 1 : 0,
                              manifest::render_context(request.task)));
  if (text.empty()) {
    return Error{ErrorClass::failed,
                 "adapter-plan-invalid",
                 "render the task",
                 profile.plugin.elf.note.provider_id,
                 "the adapter rendered an empty request",
                 ""};
  }
  stage.request_text = std::move(text);
  HR_TRY(transport,
         manifest::build_transport(stage.envelope, profile.plugin.elf.note.provider_id, stage.request_text));
  stage.transport = std::move(transport);
  stage.instructions.push_back({"instructions.effective-task-request", "task", stage.request_text,
                                "task-envelope/v1 rendered by " + profile.plugin.elf.note.provider_id, 100});
  for (std::size_t i = 0; i < request.task.instructions.size(); ++i) {
    const manifest::InstructionText& one = request.task.instructions[i];
    stage.instructions.push_back(
        {"instructions.profile-" + std::to_string(i + 1), "profile", one.content, one.origin, 200});
  }
  return stage;
}

}  // namespace hitchrail::launch
