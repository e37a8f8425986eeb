// Stage `manifest`: run-launch-manifest/v1, the one document that says what will run, with what rights, on
// what base. Policy blockers are data here; start() refuses on the first of them. Changes nothing.

#include "attempt/attempt.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/egress.hpp"
#include "launch/stages.hpp"

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

void add_findings(manifest::LaunchManifestInput& input, const BoundaryStage& boundary) {
  input.blockers.insert(input.blockers.end(), boundary.phase.blockers.begin(), boundary.phase.blockers.end());
  input.warnings.insert(input.warnings.end(), boundary.phase.warnings.begin(), boundary.phase.warnings.end());
  for (const auto& blocker : boundary.compiled.blockers) {
    input.blockers.push_back({blocker.error.code, "sandbox", blocker.error.detail, blocker.error.remedy});
  }
  for (const auto& warning : boundary.compiled.warnings) {
    input.warnings.push_back({warning.code, "sandbox", warning.detail, ""});
  }
  for (const auto& requirement : input.requirements) {
    if (!requirement.satisfied) {
      input.blockers.push_back({"provider-capability-unavailable", "providerRequirements",
                                requirement.id + ": " + requirement.reason,
                                "use a provider version that has it"});
    }
  }
}

}  // namespace

Result<ManifestStage> stage_manifest(const Ground& ground, const Request& request,
                                     const ProfileStage& profile, const ProgramStage& program,
                                     const ProbeStage& probe, const WorktreeStage& worktree,
                                     const TrustStage& trust, const BoundaryStage& boundary,
                                     const TaskStage& task, const PlanStage& plan) {
  manifest::LaunchManifestInput input;
  input.created_at_ms = task.created_unix_ms;
  input.task_id = task.task_id;
  input.attempt_id = task.attempt_id;
  input.attempt_path = ground.state_path + "/" + attempt::attempts_folder + "/" + task.attempt_id;
  input.envelope = task.envelope;
  input.runtime_manifest = probe.runtime_manifest;
  const bool required = boundary.preset.enforcement == boundary::Enforcement::required;
  manifest::LaunchNeeds needs;
  needs.resume = worktree.resumed.has_value();
  judge_runtime(probe, profile, request.model, required, needs, input);
  input.harness_support = support_json(profile.profile);
  input.requested_agent = request.agent;
  input.selected_agent = profile.profile.id;
  input.routing_reason = "asked for by the operator";
  input.instructions = task.instructions;
  input.warnings = task.warnings;
  input.workspace_trust = trust.evidence;
  input.instructions.insert(input.instructions.end(), trust.instructions.begin(), trust.instructions.end());
  if (trust.blocker) {
    input.blockers.push_back(*trust.blocker);
  }
  input.model = request.model;
  input.command = program.executable.path;
  input.args = plan.planned.plan.argv;
  input.working_directory = plan.command.cwd;
  input.worktree = worktree.worktree.root;
  input.environment_keys = environment_keys(plan);
  for (const auto& name : plan.secret_names) {
    input.credential_references.push_back("env:" + name);
  }
  if (boundary.login_file) {
    input.credential_references.push_back("file:" + profile.profile.login_home_path);
  }
  input.plan = plan_json(plan.planned.plan);
  input.sandbox = sandbox_json(boundary, plan, probe.runtime_manifest.get("digest"));
  input.phase = boundary.phase.evidence;
  if (worktree.resumed) {
    input.conversation = task.envelope.get("conversation");
  }
  input.origins = {{"runtime.command", "agent-profile", profile.profile.id, 200},
                   {"sandbox.presetId", "run", "operator", 300},
                   {"runtime.args", "provider", profile.plugin.elf.note.provider_id, 100}};
  add_findings(input, boundary);
  ManifestStage stage;
  HR_TRY(manifest, manifest::build_launch_manifest(input));
  stage.manifest = std::move(manifest);
  return stage;
}

}  // namespace hitchrail::launch
