// Stage `probe`: the steps the adapter asks for, run in the probe boundary (empty HOME and working directory,
// no credentials, no network), and the runtime manifest made of what it read. A result is remembered for five
// minutes under everything it depends on.

#include <hitchrail/adapter.h>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/memo.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::int64_t memo_age_ms = 300'000;  // contracts §4.3
constexpr int max_steps = 16;

std::string memo_key(const ProfileStage& profile, const ProgramStage& program) {
  return program.sha256 + " " + program.executable.path + " " + profile.plugin.digest + " " +
         profile.profile.configuration_digest + " " + std::to_string(manifest::probe_revision);
}

std::string request_json(const ProfileStage& profile, const ProgramStage& program) {
  json::Value value = json::Value::object();
  value.set("schemaVersion", "probe-request/v1");
  value.set("profileId", profile.profile.id);
  value.set("executable", program.executable.path);
  value.set("platform", "linux");
  return json::write(value);
}

Result<plugins::ProbeStepResult> run_step(const boundary::Compiled& boundary, const ProgramStage& program,
                                          const plugins::ProbeStep& step) {
  boundary::Command command;
  command.executable = program.executable;
  command.argv.push_back(program.executable.path);
  command.argv.insert(command.argv.end(), step.argv.begin(), step.argv.end());
  command.env = boundary::inside(boundary, {}).environment;
  boundary::RunLimits limits;
  limits.max_stdout = step.max_output;
  limits.max_stderr = step.max_output;
  limits.wall_ms = step.timeout_ms;
  HR_TRY(run, boundary::run(boundary, command, limits, step.input));
  plugins::ProbeStepResult result;
  result.step_id = step.step_id;
  result.code = run.value;
  using End = boundary::RunOutput::End;
  result.outcome = run.end == End::exited     ? HR_STEP_EXITED
                   : run.end == End::signaled ? HR_STEP_SIGNALED
                                              : HR_STEP_TIMED_OUT;
  if (run.end == End::output_limit) {
    result.outcome = HR_STEP_SIGNALED;
    result.code = 9;
  }
  result.stdout_bytes = std::move(run.out);
  result.stderr_bytes = std::move(run.err);
  result.stdout_truncated = run.out_truncated || run.end == End::output_limit;
  result.stderr_truncated = run.err_truncated;
  return result;
}

Result<json::Value> run_probe(const Ground& ground, const ProfileStage& profile, const ProgramStage& program,
                              plugins::Planner& planner) {
  HR_TRY(boundary, boundary::probe_boundary(program.packages, ground.machine()));
  HR_CHECK(boundary::admit(boundary));
  HR_TRY(reply, planner.probe(request_json(profile, program)));
  std::vector<plugins::ProbeStep> steps = std::move(reply.steps);
  std::optional<std::string> result = std::move(reply.result_json);
  for (std::size_t next = 0; next < steps.size(); ++next) {
    if (next >= max_steps) {
      return Error{ErrorClass::failed,
                   "adapter-plan-invalid",
                   "probe",
                   profile.plugin.elf.note.provider_id,
                   "the adapter asks for more than 16 steps",
                   ""};
    }
    HR_TRY(outcome, run_step(boundary, program, steps[next]));
    HR_TRY(more, planner.probe_step(outcome));
    for (auto& step : more.steps) {
      steps.push_back(std::move(step));
    }
    if (more.result_json) {
      result = std::move(more.result_json);
    }
  }
  if (!result) {
    return Error{ErrorClass::failed,
                 "adapter-hook-failed",
                 "probe",
                 profile.plugin.elf.note.provider_id,
                 "the adapter gave no probe result",
                 ""};
  }
  return json::parse(*result, json::Duplicates::refuse, "probe result");
}

Status check_version(const ProfileStage& profile, const json::Value& manifest) {
  return profiles::check_tested_version(profile.profile, manifest.get("providerVersion").as_string());
}

}  // namespace

Result<plugins::Planner> spawn_planner(const Ground& ground, const ProfileStage& profile) {
  HR_TRY(runner, open_program(ground.installation, "hitchrail-runner"));
  return plugins::Planner::spawn(runner.get(), profile.plugin.fd.get());
}

Result<ProbeStage> stage_probe(const Ground& ground, const ProfileStage& profile, const ProgramStage& program,
                               plugins::Planner& planner) {
  ProbeStage stage;
  if (ground.home) {
    if (auto memo = recall(*ground.home, "probe", memo_key(profile, program))) {
      const std::int64_t age = unix_millis_now() - memo->get("probedUnixMs").as_int().value_or(0);
      if (age >= 0 && age < memo_age_ms &&
          !manifest::check_runtime_manifest(memo->get("manifest")).has_error()) {
        stage.runtime_manifest = memo->get("manifest");
        stage.from_memo = true;
        HR_CHECK(check_version(profile, stage.runtime_manifest));
        return stage;
      }
    }
  }
  HR_CHECK(planner.ready());
  HR_TRY(probed, run_probe(ground, profile, program, planner));
  manifest::RuntimeManifestInput input;
  HR_CHECK(manifest::apply_probe_result(probed, input));
  input.provider = profile.profile.adapter_id;
  input.adapter = profile.plugin.elf.note.provider_id;
  input.executable_path = program.executable.path;
  input.executable_sha256 = program.sha256;
  input.adapter_version = planner.info().version;
  input.adapter_sha256 = profile.plugin.digest.substr(std::string("sha256:").size());
  input.probed_at_ms = unix_millis_now();
  add_host_capabilities(input);
  HR_TRY(manifest, manifest::build_runtime_manifest(input));
  stage.runtime_manifest = std::move(manifest);
  HR_CHECK(check_version(profile, stage.runtime_manifest));
  return stage;
}

// What the host itself gives every run, whatever the provider does.
void add_host_capabilities(manifest::RuntimeManifestInput& input) {
  struct Entry {
    const char* id;
    const char* reason;
  };
  static constexpr Entry entries[] = {
      {"run.start", "the shim starts and records it"},
      {"run.stop", "the plan's stop steps, then the whole tree is ended"},
      {"run.status", "exit slot and journal"},
      {"run.logs", "every record is journaled"},
      {"run.complete", "the finisher writes the completion result"},
      {"run.reattach", "the shim keeps the bytes until the journal has them"},
      {"workspace.worktrees", "one live run per work tree, private git directory"},
      {"filesystem.run-scoped-temp", "own /tmp and home"},
      {"filesystem.cleanup", "the finisher removes them"},
      {"environment.allowlist", "built from empty"},
  };
  for (const auto& entry : entries) {
    input.capabilities.push_back({entry.id, manifest::CapabilityState::supported,
                                  manifest::CapabilitySource::host_enforced, entry.reason});
  }
}

void remember_stages(const store::StateHome& home, const Prepared& prepared) {
  remember_program(home, prepared.program);
  remember_proofs(home, prepared.boundary.proven);
  if (!prepared.probe.from_memo) {
    json::Value value = json::Value::object();
    value.set("probedUnixMs", unix_millis_now());
    value.set("manifest", prepared.probe.runtime_manifest);
    (void)remember(home, "probe", memo_key(prepared.profile, prepared.program), std::move(value));
  }
}

}  // namespace hitchrail::launch
