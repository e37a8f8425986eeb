// Stage `probe`: the steps the adapter asks for, run in the probe boundary (empty HOME and working directory,
// no credentials, no network), and the runtime manifest made of what it read. A result is remembered for five
// minutes under everything it depends on.

#include <hitchrail/adapter.h>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::int64_t kept_ms = 300'000;  // contracts §4.3
constexpr int max_steps = 16;

store::CacheKey cache_key(const ProfileStage& profile, const ProgramStage& program) {
  return {"runtime-manifest", profile.profile.id + " " + program.executable.path,
          program.sha256 + " " + program.executable.path + " " + profile.plugin.digest + " " +
              profile.profile.configuration_digest + " " + std::to_string(manifest::probe_revision)};
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

Result<json::Value> run_probe(const boundary::Compiled& boundary, const ProfileStage& profile,
                              const ProgramStage& program, plugins::Planner& planner) {
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

// A good one of the last five minutes.
std::optional<json::Value> kept_manifest(const store::Cache& cache, const store::CacheKey& key) {
  const auto kept = cache.recall(key);
  if (!kept) {
    return std::nullopt;
  }
  const std::int64_t age = unix_millis_now() - kept->get("probedUnixMs").as_int().value_or(0);
  const json::Value& manifest = kept->get("manifest");
  const bool good = age >= 0 && age < kept_ms && !manifest::check_runtime_manifest(manifest).has_error() &&
                    manifest.get("probe").get("state").as_string() != "failed" &&
                    manifest.get("providerVersion").as_string() != "unknown";
  return good ? std::optional(manifest) : std::nullopt;
}

// What came of a probe, for the processes that wait for it: the manifest, and why it failed.
json::Value flight_json(const ProbeStage& stage) {
  json::Value value = json::Value::object();
  value.set("manifest", stage.runtime_manifest);
  if (stage.failure) {
    json::Value failure = json::Value::object();
    failure.set("kind", static_cast<int>(stage.failure->kind));
    failure.set("code", path_value(stage.failure->code));
    failure.set("object", path_value(stage.failure->object));
    failure.set("detail", manifest::sanitize_diagnostic(stage.failure->detail));
    failure.set("remedy", manifest::sanitize_diagnostic(stage.failure->remedy));
    value.set("failure", std::move(failure));
  }
  return value;
}

ProbeStage stage_from(const json::Value& flight) {
  ProbeStage stage{flight.get("manifest"), true, std::nullopt};
  if (const json::Value* failure = flight.find("failure")) {
    const auto text = [&](const char* name) {
      auto found = path_text(failure->get(name));
      return found.has_value() ? std::move(found).value() : std::string();
    };
    const std::int64_t kind = failure->get("kind").as_int().value_or(0);
    stage.failure =
        Error{kind >= 0 && kind <= static_cast<int>(ErrorClass::internal) ? static_cast<ErrorClass>(kind)
                                                                          : ErrorClass::failed,
              text("code"),
              "probe",
              text("object"),
              text("detail"),
              text("remedy")};
  }
  return stage;
}

// A version outside the profile's list refuses; a probe that failed has none to compare.
Result<ProbeStage> checked(const ProfileStage& profile, ProbeStage stage) {
  if (!stage.failure) {
    HR_CHECK(check_version(profile, stage.runtime_manifest));
  }
  return stage;
}

// The provider's faults are in the manifest; what the machine or the adapter cannot do is the Error.
Result<ProbeStage> probe_now(const Ground& ground, const ProfileStage& profile, const ProgramStage& program,
                             plugins::Planner& planner) {
  HR_CHECK(planner.ready());
  HR_TRY(boundary, boundary::probe_boundary(program.packages, ground.machine()));
  HR_CHECK(boundary::admit(boundary));
  ProbeStage stage;
  manifest::RuntimeManifestInput input;
  auto probed = run_probe(boundary, profile, program, planner);
  if (probed.has_value()) {
    HR_CHECK(manifest::apply_probe_result(probed.value(), input));
    add_host_capabilities(input);
  } else {
    if (const Status alive = planner.ready(); alive.has_error()) {
      return std::move(probed).error();
    }
    stage.failure = std::move(probed).error();
    input.protocol_version = "unknown";
    input.probe_state = "failed";
    input.diagnostics.push_back(stage.failure->code + ": " + stage.failure->detail);
  }
  input.provider = profile.profile.adapter_id;
  input.adapter = profile.plugin.elf.note.provider_id;
  input.executable_path = program.executable.path;
  input.executable_sha256 = program.sha256;
  input.adapter_version = planner.info().version;
  input.adapter_sha256 = profile.plugin.digest.substr(std::string("sha256:").size());
  input.probed_at_ms = unix_millis_now();
  HR_TRY(manifest, manifest::build_runtime_manifest(input));
  stage.runtime_manifest = std::move(manifest);
  return stage;
}

}  // namespace

Result<plugins::Planner> spawn_planner(const Ground& ground, const ProfileStage& profile) {
  HR_TRY(runner, open_program(ground.installation, "hitchrail-runner"));
  return plugins::Planner::spawn(runner.get(), profile.plugin.fd.get());
}

Result<ProbeStage> stage_probe(const Ground& ground, const ProfileStage& profile, const ProgramStage& program,
                               plugins::Planner& planner) {
  const store::CacheKey key = cache_key(profile, program);
  if (auto kept = kept_manifest(ground.cache, key)) {
    return checked(profile, {std::move(*kept), true, std::nullopt});
  }
  store::Flight flight = ground.cache.join(key);
  // Who had the lock before may have ended between the first look and this one.
  if (auto kept = kept_manifest(ground.cache, key)) {
    flight.land(flight_json({*kept, true, std::nullopt}));
    return checked(profile, {std::move(*kept), true, std::nullopt});
  }
  if (flight.landed()) {
    ProbeStage shared = stage_from(*flight.landed());
    if (!manifest::check_runtime_manifest(shared.runtime_manifest).has_error()) {
      return checked(profile, std::move(shared));
    }
  }
  HR_TRY(stage, probe_now(ground, profile, program, planner));
  const json::Value& manifest = stage.runtime_manifest;
  if (manifest.get("providerVersion").as_string() != "unknown" && !stage.failure) {
    json::Value value = json::Value::object();
    value.set("probedUnixMs", unix_millis_now());
    value.set("manifest", manifest);
    (void)ground.cache.remember(key, std::move(value));
  }
  flight.land(flight_json(stage));
  return checked(profile, std::move(stage));
}

void judge_runtime(const ProbeStage& probe, const ProfileStage& profile, const std::string& model,
                   bool required_preset, const manifest::LaunchNeeds& needs,
                   manifest::LaunchManifestInput& input) {
  manifest::Wanted wanted;
  wanted.provider = profile.profile.adapter_id;
  wanted.model = model;
  wanted.capabilities = manifest::launch_requirements(needs);
  wanted.required_preset = required_preset;
  const std::vector<manifest::Candidate> candidates =
      manifest::select_runtime_manifest({&probe.runtime_manifest, 1}, wanted);
  const manifest::Candidate& chosen = candidates.front();
  input.requirements = chosen.requirements;
  for (const manifest::Finding& reason : chosen.reasons) {
    if (reason.code != "provider-capability-unavailable" && reason.code != "provider-probe-failed") {
      input.blockers.push_back(reason);
    }
  }
  input.warnings.insert(input.warnings.end(), chosen.warnings.begin(), chosen.warnings.end());
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

}  // namespace hitchrail::launch
