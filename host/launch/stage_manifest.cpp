// Stage `manifest`: run-launch-manifest/v1, the one document that says what will run, with what rights, on
// what base. Policy blockers are data here; start() refuses on the first of them. Changes nothing.

#include "attempt/attempt.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/egress.hpp"
#include "launch/origins.hpp"
#include "launch/stages.hpp"
#include "manifest/credentials.hpp"
#include "manifest/readiness.hpp"

namespace hitchrail::launch {

namespace {

json::Value plan_json(const plugins::LaunchPlan& plan) {
  json::Value value = json::Value::object();
  value.set("transport", "stdio");
  value.set("streamIntegrity", plan.needs_pipe ? "none" : "socket-pair");
  json::Value streams = json::Value::array();
  for (const auto& stream : plan.streams) {
    json::Value one = json::Value::object();
    one.set("stream", stream.stream);
    one.set("framing", stream.framing);
    one.set("overflow", stream.overflow);
    one.set("recordCap", stream.record_cap);
    streams.push(std::move(one));
  }
  value.set("streams", std::move(streams));
  json::Value files = json::Value::array();
  for (const auto& file : plan.home_files) {
    json::Value one = json::Value::object();
    one.set("path", path_value(file.path));
    one.set("sha256", sha256_hex(file.bytes));
    one.set("byteLength", static_cast<std::uint64_t>(file.bytes.size()));
    files.push(std::move(one));
  }
  value.set("homeFiles", std::move(files));
  json::Value stop = json::Value::array();
  for (const auto& step : plan.stop) {
    json::Value one = json::Value::object();
    one.set("kind", step.kind == 1 ? "send" : (step.kind == 2 ? "close-input" : "signal"));
    if (step.signal != 0) {
      one.set("signal", step.signal);
    }
    one.set("waitMs", step.wait_ms);
    stop.push(std::move(one));
  }
  value.set("stopSteps", std::move(stop));
  value.set("closeInput", plan.close_input);
  return value;
}

const char* backend_name(boundary::Backend backend) {
  return backend == boundary::Backend::landlock ? "landlock" : "native";
}

// Who chose the preset, and for one of the operator's own who recorded it last.
json::Value attribution_json(const PresetInfo& chosen) {
  const Person person = current_person();
  json::Value value = json::Value::object();
  value.set("source", chosen.preset->built_in ? "built-in" : "operator");
  value.set("presetDigest", chosen.preset->digest);
  json::Value selected = json::Value::object();
  selected.set("uid", person.uid);
  selected.set("user", person.user);
  value.set("selectedBy", std::move(selected));
  if (chosen.record && !chosen.preset->built_in) {
    value.set("recordedAt", iso8601(chosen.record->changed_unix_ms));
  }
  return value;
}

json::Value sandbox_json(const BoundaryStage& boundary, const PlanStage& plan,
                         const json::Value& runtime_digest) {
  json::Value value = json::Value::object();
  value.set("presetId", boundary.preset.id);
  value.set("presetDigest", boundary.preset.digest);
  const bool required = boundary.preset.enforcement == boundary::Enforcement::required;
  value.set("enforcement", required ? "required" : "advisory");
  value.set("backend", backend_name(boundary.compiled.backend));
  value.set("decision", boundary.compiled.blockers.empty() ? "allow" : "block");
  json::Value effective = json::Value::object();
  effective.set("networkAccessEnabled", boundary.compiled.network == boundary::Network::host);
  effective.set("network", network_name(boundary.compiled.network));
  json::Value keys = json::Value::array();
  for (const auto& [name, text] : plan.environment) {
    keys.push(name);
  }
  effective.set("environmentKeys", std::move(keys));
  value.set("effective", std::move(effective));
  value.set("egress", egress_json(boundary.compiled));
  json::Value warnings = json::Value::array();
  for (const auto& warning : boundary.compiled.warnings) {
    json::Value one = json::Value::object();
    one.set("code", warning.code);
    one.set("detail", warning.detail);
    warnings.push(std::move(one));
  }
  value.set("warnings", std::move(warnings));
  value.set("policyHash", boundary.compiled.policy_hash);
  value.set("attribution", attribution_json(boundary.chosen));
  json::Value filesystem = boundary.compiled.evidence;
  filesystem.set("providerRuntimeManifestDigest", runtime_digest);
  value.set("filesystem", std::move(filesystem));
  return value;
}

json::Value support_json(const profiles::SupportProfile& profile) {
  json::Value value = json::Value::object();
  value.set("profileId", profile.id);
  value.set("adapterId", profile.adapter_id);
  value.set("transport", profile.transport);
  value.set("supportTier", profiles::to_string(profile.tier));
  value.set("configurationDigest", profile.configuration_digest);
  return value;
}

std::vector<std::string> environment_keys(const PlanStage& plan) {
  std::vector<std::string> keys;
  for (const auto& [name, text] : plan.environment) {
    keys.push_back(name);
  }
  keys.insert(keys.end(), plan.secret_names.begin(), plan.secret_names.end());
  return keys;
}

void add_findings(manifest::LaunchManifestInput& input, const Prepared& prepared) {
  const BoundaryStage& stage = prepared.boundary;
  input.blockers.insert(input.blockers.end(), stage.phase.blockers.begin(), stage.phase.blockers.end());
  input.warnings.insert(input.warnings.end(), stage.phase.warnings.begin(), stage.phase.warnings.end());
  const boundary::Compiled& compiled = prepared.boundary.compiled;
  for (const auto& blocker : compiled.blockers) {
    input.blockers.push_back({blocker.error.code, "sandbox", blocker.error.detail, blocker.error.remedy});
  }
  for (const auto& warning : compiled.warnings) {
    input.warnings.push_back({warning.code, "sandbox", warning.detail, ""});
  }
  for (const auto& finding : prepared.limits.budget.findings) {
    (finding.blocks ? input.blockers : input.warnings)
        .push_back({finding.code, finding.field, finding.detail, finding.remedy});
  }
}

Status add_readiness(const Request& request, const Prepared& prepared, manifest::LaunchManifestInput& input) {
  manifest::ReadinessInput gate;
  gate.message = request.task.message;
  gate.acceptance_criteria = request.task.acceptance_criteria.size();
  gate.verification_gates = request.task.gates.size();
  gate.expected_outputs = request.task.expected_outputs.size();
  gate.clean_worktree = !prepared.worktree.baseline.dirty;
  gate.required = request.task.readiness_required;
  gate.override_reason = request.override_reason;
  HR_TRY(readiness, manifest::judge_readiness(gate));
  input.readiness = readiness.section;
  if (readiness.blocked) {
    input.blockers.push_back({"readiness-not-met", "readiness", readiness.detail,
                              "complete the task, or --override-readiness REASON"});
  } else if (readiness.section.get("overridden").as_bool()) {
    input.warnings.push_back({"readiness-overridden", "readiness", readiness.detail, ""});
  } else if (!request.override_reason.empty()) {
    input.warnings.push_back(
        {"readiness-override-unused", "readiness", "the task is ready; there was nothing to override", ""});
  }
  return {};
}

// Names only; a login file by its place in the conversation's home.
Status add_credentials(const Prepared& prepared, manifest::LaunchManifestInput& input) {
  const profiles::SupportProfile& profile = prepared.profile.profile;
  manifest::CredentialPlanInput plan;
  plan.credentials_allowed = prepared.boundary.preset.credentials != boundary::Credentials::none;
  plan.boot_names = profile.credential_allowlist;
  plan.passed = input.environment_keys;
  if (prepared.boundary.login_file) {
    plan.login_file = profile.login_home_path;
  }
  plan.runtime_manifest = prepared.probe.runtime_manifest;
  HR_TRY(sealed, manifest::build_credential_plan(plan));
  for (const auto& reference : sealed.get("references").items()) {
    input.credential_references.push_back(reference.get("reference").as_string());
  }
  input.credentials = std::move(sealed);
  return {};
}

void add_program(const Request& request, const Prepared& prepared, manifest::LaunchManifestInput& input) {
  input.requested_agent = request.agent;
  input.selected_agent = prepared.profile.profile.id;
  input.routing_reason = "asked for by the operator";
  input.harness_support = support_json(prepared.profile.profile);
  input.model = prepared.limits.model;
  input.command = prepared.program.executable.path;
  input.args = prepared.plan.planned.plan.argv;
  input.working_directory = prepared.plan.command.cwd;
  input.worktree = prepared.worktree.worktree.root;
  input.environment_keys = environment_keys(prepared.plan);
  input.values =
      manifest::launch_values(prepared.plan.environment, request.provider_options, input.attempt_path);
  input.plan = plan_json(prepared.plan.planned.plan);
  input.time_limit_s = prepared.limits.time_limit_s;
  input.budget = prepared.limits.budget.section;
}

// What differs from the parent is recorded; it blocks only when the operator says so.
Result<json::Value> with_parent(const Request& request, manifest::LaunchManifestInput input,
                                json::Value parent) {
  HR_TRY(alone, manifest::build_launch_manifest(input));
  parent.erase("parent");
  const auto changes = manifest::diff(alone, parent);
  input.parent = manifest::lineage(parent, changes);
  if (request.refuse_drift && !changes.empty()) {
    std::string sections;
    for (const auto& change : changes) {
      sections += (sections.empty() ? "" : ", ") + change.field;
    }
    input.blockers.push_back(
        {"parent-drift", "parent",
         "this launch differs from " + parent.get("attemptId").as_string() + " in " + sections,
         "leave --refuse-drift out to have it recorded only"});
  }
  return manifest::build_launch_manifest(input);
}

}  // namespace

Result<ManifestStage> stage_manifest(const Ground& ground, const Request& request, const Prepared& prepared,
                                     const Comparison& comparison) {
  const TaskStage& task = prepared.task;
  manifest::LaunchManifestInput input;
  input.created_at_ms = task.created_unix_ms;
  input.task_id = task.task_id;
  input.attempt_id = task.attempt_id;
  input.attempt_path = ground.state_path + "/" + attempt::attempts_folder + "/" + task.attempt_id;
  input.envelope = task.envelope;
  input.runtime_manifest = prepared.probe.runtime_manifest;
  const bool required = prepared.boundary.preset.enforcement == boundary::Enforcement::required;
  input.instructions = task.instructions;
  input.warnings = task.warnings;
  input.workspace_trust = prepared.trust.evidence;
  input.instructions.insert(input.instructions.end(), prepared.trust.instructions.begin(),
                            prepared.trust.instructions.end());
  if (prepared.trust.blocker) {
    input.blockers.push_back(*prepared.trust.blocker);
  }
  add_program(request, prepared, input);
  manifest::LaunchNeeds needs;
  needs.resume = prepared.worktree.resumed.has_value();
  if (input.budget.get("enforcement").as_string() == "required") {
    needs.budget = input.budget;  // an advisory one is recorded, and asks nothing of the provider
  }
  judge_runtime(prepared.probe, prepared.profile, input.model, required, needs, input);
  HR_CHECK(add_credentials(prepared, input));
  HR_CHECK(add_readiness(request, prepared, input));
  input.sandbox =
      sandbox_json(prepared.boundary, prepared.plan, prepared.probe.runtime_manifest.get("digest"));
  input.phase = prepared.boundary.phase.evidence;
  input.worktree_manifest = prepared.worktree.manifest;
  input.foreign_owner_trusted = request.trust_owner;
  if (prepared.worktree.resumed) {
    input.conversation = task.envelope.get("conversation");
  }
  input.origins = origins_of(request, prepared);
  add_findings(input, prepared);
  ManifestStage stage;
  HR_TRY(manifest, comparison.parent ? with_parent(request, input, *comparison.parent)
                                     : manifest::build_launch_manifest(input));
  stage.manifest = std::move(manifest);
  stage.values = std::move(input.values);
  if (comparison.planned) {
    stage.planned_digest = comparison.planned->get("digest").as_string();
    stage.drift = manifest::diff(stage.manifest, *comparison.planned);
  }
  return stage;
}

}  // namespace hitchrail::launch
