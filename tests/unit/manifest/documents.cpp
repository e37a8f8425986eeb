#include "documents.hpp"

#include <catch2/catch.hpp>

#include "manifest/credentials.hpp"
#include "manifest/readiness.hpp"

namespace hitchrail::manifest::test {
namespace {

const std::string kHash(64, 'a');

}  // namespace

json::Value built(const Result<json::Value>& result) {
  if (result.has_error()) {
    FAIL(result.error().code << " " << result.error().object << ": " << result.error().detail);
  }
  return result.value();
}

std::string refusal(const Result<json::Value>& result) {
  return result.has_error() ? result.error().code + " " + result.error().object : "";
}

std::string refusal(const Result<TaskEnvelope>& result) {
  return result.has_error() ? result.error().code + " " + result.error().object : "";
}

std::string refusal(const Result<TaskSpec>& result) {
  return result.has_error() ? result.error().code + " " + result.error().object : "";
}

json::Value envelope_of(const TaskEnvelopeInput& input) {
  const Result<TaskEnvelope> result = build_task_envelope(input);
  if (result.has_error()) {
    FAIL(result.error().code << " " << result.error().object << ": " << result.error().detail);
  }
  return result.value().document;
}

std::string refusal(const Status& status) {
  return status.has_error() ? status.error().code + " " + status.error().object : "";
}

RuntimeManifestInput runtime_input() {
  RuntimeManifestInput input;
  input.provider = "script";
  input.adapter = "script";
  input.protocol_version = "script-lines/v1";
  input.provider_version = "1.2.3";
  input.executable_path = "/opt/script/bin/script";
  input.executable_sha256 = kHash;
  input.adapter_version = "0.1.0";
  input.adapter_sha256 = kHash;
  input.models = {"large", "small"};
  for (const std::string& id : launch_requirements(true)) {
    input.capabilities.push_back(
        {id, CapabilityState::supported, CapabilitySource::runtime_probe, "seen in the probe"});
  }
  input.probed_at_ms = 1'700'000'000'000;
  return input;
}

TaskEnvelopeInput envelope_input() {
  TaskEnvelopeInput input;
  input.task_id = "task_1";
  input.task.message = "Mend the parser.\nIt drops the last line.";
  input.attempt_id = "attempt_1";
  input.created_at_ms = 1'700'000'000'500;
  input.workspace_id = "demo";
  input.worktree_id = "1:2/1:3";
  input.repo = "demo";
  input.branch = "main";
  input.resolved_base_commit = std::string(40, 'b');
  input.worktree_path = "/home/op/demo";
  input.baseline = json::Value::object({{"capturedAt", "2026-01-01T00:00:00.000Z"},
                                        {"headSha", std::string(40, 'b')},
                                        {"dirty", false},
                                        {"files", json::Value::array()}});
  input.runtime_manifest = built(build_runtime_manifest(runtime_input()));
  return input;
}

LaunchManifestInput launch_input() {
  LaunchManifestInput input;
  input.created_at_ms = 1'700'000'001'000;
  input.task_id = "task_1";
  input.attempt_id = "attempt_1";
  input.attempt_path = "/state/runs/attempt_1";
  input.envelope = envelope_of(envelope_input());
  input.runtime_manifest = envelope_input().runtime_manifest;
  input.requirements = evaluate_requirements(input.runtime_manifest, launch_requirements(false), true);
  input.harness_support = json::Value::object({{"profileId", "script"},
                                               {"adapterId", "script"},
                                               {"transport", "process-jsonl"},
                                               {"supportTier", "configured"}});
  input.requested_agent = "script";
  input.selected_agent = "script";
  input.routing_reason = "named by the operator";
  input.instructions = {
      {"task", "task", "# Task\nattempt attempt_1 below /state/runs/attempt_1/home", "operator", 100}};
  input.command = "/opt/script/bin/script";
  input.args = {"run", "--home=/state/runs/attempt_1/home", "--json"};
  input.working_directory = "/home/op/demo";
  input.worktree = "/home/op/demo";
  input.environment_keys = {"PATH", "HOME", "PATH"};
  input.credential_references = {"env:SCRIPT_API_KEY"};
  input.sandbox = json::Value::object({{"presetId", "workspace"},
                                       {"enforcement", "required"},
                                       {"decision", "enforce"},
                                       {"effective", json::Value::object({{"network", "host"}})}});
  ReadinessInput ready;
  ready.message = "Mend the parser.";
  input.readiness = judge_readiness(ready).value().section;
  CredentialPlanInput credentials;
  credentials.boot_names = {"SCRIPT_API_KEY"};
  credentials.passed = {"HOME", "SCRIPT_API_KEY"};
  credentials.runtime_manifest = input.runtime_manifest;
  input.credentials = built(build_credential_plan(credentials));
  input.origins = {{"sandbox.presetId", "system-default", "default preset", 0}};
  return input;
}

}  // namespace hitchrail::manifest::test
