#pragma once
// Contract documents of a launch: provider-runtime-manifest/v1, task-envelope/v1, run-launch-manifest/v1.
// Plain structs in, sealed canonical documents out (core/canonical.hpp: `digest` is the last member).
//
// Promises: bounds, ids and cross references are checked, with the field in Error::object; lists that are
// sets are trimmed, unique and sorted; the same input gives the same bytes; no string of the shape of a
// secret gets into a document (code manifest-secret). Refuses: what task_spec.hpp refuses of a task;
// manifest-invalid for any other bound. What a later issue fills (phase,
// budget, tools, credentials, workspace trust) is absent: a null json member adds nothing. Makes no Linux
// call.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "manifest/task_spec.hpp"

namespace hitchrail::manifest {

struct Finding {
  std::string code, field, detail, remediation;
};

// ---- provider-runtime-manifest/v1
// ----------------------------------------------------------------------------

enum class CapabilityState { supported, advisory, unsupported, unknown };
enum class CapabilitySource { runtime_probe, contract_test, host_enforced };
std::string_view to_string(CapabilityState state);
std::string_view to_string(CapabilitySource source);
std::optional<CapabilityState> capability_state(std::string_view text);
std::optional<CapabilitySource> capability_source(std::string_view text);

struct Capability {
  std::string id;
  CapabilityState state = CapabilityState::unknown;
  CapabilitySource source = CapabilitySource::runtime_probe;
  std::string reason;
};

// The 39 ids every manifest has, in their order. Other ids are legal beside them.
std::span<const std::string_view> known_capabilities();

inline constexpr std::int64_t probe_revision = 1;

struct RuntimeManifestInput {
  std::string provider, adapter, protocol_version;
  std::string provider_version, provider_build;    // version "" becomes "unknown" and the probe `degraded`
  std::string executable_path, executable_sha256;  // hex; of the content that runs
  std::string adapter_version, adapter_sha256;     // the plugin's; hex
  std::string provider_sandbox;                    // "", "delegated", "own"
  std::vector<std::string> models;
  // The adapter's findings, then the host's own: a later one of the same id replaces an earlier one. Known
  // ids that nobody reports become `unknown`, with that reason.
  std::vector<Capability> capabilities;
  std::string probe_state = "ready";  // ready, degraded, failed
  std::int64_t probed_at_ms = 0;
  std::string probe_source = "runtime-probe";
  std::vector<std::string> diagnostics;
};
Result<json::Value> build_runtime_manifest(const RuntimeManifestInput& input);
// Reads the adapter's probe result (sdk/schemas/probe-result.v1.json) into `input`: version, build, models,
// capabilities, state, diagnostics; the caller sets the rest.
Status apply_probe_result(const json::Value& probe_result, RuntimeManifestInput& input);
// Shape, bounds and digest of a document that was read back.
Status check_runtime_manifest(const json::Value& document);
Result<std::string> runtime_material_digest(const json::Value& document);

// The one evaluator: what a launch needs, of exactly one manifest.
enum class Verdict { satisfied, advisory, refused };
std::string_view to_string(Verdict verdict);
struct Requirement {
  std::string id;
  CapabilityState state = CapabilityState::unknown;
  bool satisfied = false, advisory = false;
  Verdict verdict = Verdict::refused;
  std::string reason;
  std::string remedy;  // "" when satisfied
};
// Sorted, unique. Under a required preset an advisory capability does not satisfy.
std::vector<Requirement> evaluate_requirements(const json::Value& runtime_manifest,
                                               std::vector<std::string> ids, bool required_preset);

// Which of several manifests a launch may use: all of its requirements are met by one, never by two together.
struct Wanted {
  std::string provider;  // "" = any; equal to a manifest's provider or adapter, in any case
  std::string model;     // "" = any; a manifest that lists no models says nothing about them: a warning
  std::vector<std::string> capabilities;
  bool required_preset = true;
};
struct Candidate {
  std::size_t index = 0;  // in the list that was given
  bool compatible = false, advisory = false;
  std::vector<Finding> reasons;   // why not; codes provider-probe-failed, provider-mismatch,
                                  // provider-model-unavailable, provider-capability-unavailable
  std::vector<Finding> warnings;  // provider-probe-degraded, provider-capability-advisory,
                                  // provider-model-unknown
  std::vector<Requirement> requirements;
};
// Best first: compatible, without advisories, probe ready before degraded before failed, provider, digest.
std::vector<Candidate> select_runtime_manifest(std::span<const json::Value> manifests, const Wanted& wanted);

// What a launch needs of its provider, whatever else the caller adds.
struct LaunchNeeds {
  bool resume = false;  // run.resume, run.follow-up
  bool fork = false;    // run.fork, run.follow-up
  bool tools = false;   // tool.calls
  bool mcp = false;     // tool.calls, tool.mcp
  json::Value budget;   // the manifest's section: limits on tokens or cost need usage.tokens, on tool calls
                        // tool.calls, when it is enabled
  std::vector<std::string> extra;
};
// run.start, run.status, run.logs, run.complete, workspace.worktrees, and these.
std::vector<std::string> launch_requirements(const LaunchNeeds& needs);
std::vector<std::string> launch_requirements(bool resume);

// The 20 actions an operator may ask of a run, each with the state of its capability in this manifest; a
// manifest that is absent or not valid makes all of them unknown and unavailable. {manifestDigest?,
// provider?, providerVersion?, probeState?, controls[{action, label, capabilityId, state, available,
// advisory, reason, remediation?}]}.
json::Value derive_controls(const json::Value& runtime_manifest);

// ---- task-envelope/v1
// ----------------------------------------------------------------------------------------

struct TaskEnvelopeInput {
  std::string task_id;
  TaskSpec task;  // subject.objective is the title; the message is kept byte for byte as subject.message
  std::string attempt_id;
  std::int64_t created_at_ms = 0;
  // branch "" (detached) is left out; base_branch "" = branch
  std::string workspace_id, worktree_id, repo, branch, base_branch;
  std::string resolved_base_commit;  // "" = unborn
  std::string worktree_path;         // any bytes
  // Of a worktree that Hitchrail made; "" = absent. Source: remote, local, local-stale, legacy-adopted.
  std::string worktree_manifest_id, ownership_lease_id, ownership_attempt_id, base_resolution_source;
  json::Value baseline;                   // workspace::baseline_json()
  std::string commit_policy = "allowed";  // the effective one: forbidden, allowed, required
  bool network = true;                    // adds the default side effect network-egress
  json::Value runtime_manifest;           // sealed
  json::Value conversation;  // resumes: {mode, sourceAttemptId, conversationId}; null = a new one
};
struct TaskEnvelope {
  json::Value document;
  std::vector<Finding> warnings;  // side-effect-dropped, side-effect-clamped
};
// Codes beside those of check_task: task-commit-effect-missing (a commit is required and no git-commit effect
// is left), task-commit-conflict, task-duplicate-id; manifest-invalid for what is not of the task.
//   subject.constraints: the instructions' parts, the task's constraints, one line of the host's own.
//   allowedSideEffects: the task's, as far as the launch's defaults have their kind; paths inside the
//   worktree are kept, ones above it cut to it, others dropped. verificationGates[]: {id, description,
//   required, evidenceRequired, command?: {argv[], timeoutMs}}
Result<TaskEnvelope> build_task_envelope(const TaskEnvelopeInput& input);
// Every member of a document that was read back, and its digest.
Status check_task_envelope(const json::Value& document);
Result<std::string> envelope_material_digest(const json::Value& document);

// provider-task-envelope-transport/v1: what `render` gave, with the envelope it is bound to. Refuses another
// provider than the envelope's.
Result<json::Value> build_transport(const json::Value& envelope, std::string_view provider,
                                    std::string_view content);

// ---- run-launch-manifest/v1
// ----------------------------------------------------------------------------------

struct Instruction {
  std::string id, kind;  // kind: task, profile, template, repository, system, other
  std::string content;   // hashed, never stored
  std::string origin;
  std::int64_t precedence = 0;
};
struct Origin {
  std::string field, scope, source;
  std::int64_t precedence = 0;
};

struct LaunchManifestInput {
  std::int64_t created_at_ms = 0;
  std::string task_id, attempt_id;
  // Every string below that is this path or begins with it and "/" has it replaced by "<attempt>", so that
  // drift compares roles of run directories, not their names.
  std::string attempt_path;
  json::Value envelope, runtime_manifest;  // sealed
  std::vector<Requirement> requirements;
  json::Value harness_support;  // {profileId, adapterId, transport, supportTier, profileDigest?}
  std::string requested_agent, selected_agent, selected_host = "local-process", routing_reason;
  std::vector<Instruction> instructions;
  std::string model, command;
  std::vector<std::string> args;
  std::string working_directory, worktree;         // any bytes
  std::vector<std::string> environment_keys;       // names only
  json::Value values;                              // of launch_values(); only digests of it get in
  std::vector<std::string> credential_references;  // "env:NAME", "file:NAME"
  json::Value plan;  // the rest of the adapter's plan: transport, framing, stop steps, home files by digest
  json::Value
      sandbox;  // {presetId, enforcement, decision, effective{}, unsupportedRules[], warnings[], filesystem?}
  // null = absent. `phase` and `workspace_trust` are the evidence of their stages; `credentials` is sealed
  // (credentials.hpp), `readiness` and `budget` are the sections of readiness.hpp and budget.hpp.
  json::Value tools, permissions, resources, budget, workspace_trust, readiness, conversation, phase,
      credentials;
  // Of a worktree that Hitchrail made: {worktreeManifestId, ownershipLeaseId, ownershipAttemptId,
  // baseResolutionSource}; null: the operator's own, base source legacy-launch-head.
  json::Value worktree_manifest;
  json::Value parent;  // {attemptId, manifestDigest, material, changes[]}: what differs from that attempt
  std::vector<std::string> required_health_checks;
  std::uint64_t time_limit_s = 0;      // 0 = none
  bool foreign_owner_trusted = false;  // the operator accepts another user's worktree
  std::vector<Origin> origins;
  std::vector<Finding> blockers, warnings;
};
// Also a blocker for each requirement that is not satisfied, a probe that failed and a credential that would
// need a broker. No string leaf of the document has the shape of a secret (manifest-secret); an argument that
// holds the task's text has it replaced by "<prompt>".
// What the digests of values in the manifest are of, kept beside it: the environment without credentials and
// the provider's options, run directories replaced. A value that looks like a secret stands as its SHA-256.
// {schemaVersion: "launch-values/v1", environment: [{name, value}], providerOptions: [{name, value}]}
using NamedValues = std::vector<std::pair<std::string, std::string>>;
json::Value launch_values(const NamedValues& environment, const NamedValues& provider_options,
                          const std::string& attempt_path);
Result<json::Value> build_launch_manifest(const LaunchManifestInput& input);
// Of a document that was read back, strictly: digest, shape of every section, the cross checks between them
// (launch_check.cpp lists them), order of lists, and the secret test again.
Status check_launch_manifest(const json::Value& document);

// ---- text
// ----------------------------------------------------------------------------------------------------

// Whitespace runs to one space, trimmed, secret shapes replaced, at most 1000 code points.
std::string sanitize_diagnostic(std::string_view text);
bool looks_like_secret(std::string_view text);

}  // namespace hitchrail::manifest
