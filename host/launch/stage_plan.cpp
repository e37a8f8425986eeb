// Stage `plan`: the adapter's launch hook, then what the host makes of it: the harness's whole environment
// built from empty, its secrets apart from it, and the command for the boundary. Changes nothing.

#include <hitchrail/adapter.h>

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "attempt/attempt.hpp"
#include "core/file.hpp"
#include "launch/stages.hpp"
#include "manifest/credentials.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_login_bytes = 1u << 20;

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

json::Value launch_json(const Request& request, const ProfileStage& profile, const ProbeStage& probe,
                        const WorktreeStage& worktree, const BoundaryStage& boundary,
                        const LimitsStage& limits, const boundary::Inside& inside) {
  json::Value value = json::Value::object();
  value.set("schemaVersion", "launch-request/v1");
  value.set("profileId", profile.profile.id);
  value.set("providerVersion", probe.runtime_manifest.get("providerVersion"));
  value.set("worktree", inside.worktree);
  value.set("home", inside.home);
  value.set("temp", inside.temp);
  if (!limits.model.empty()) {
    value.set("model", limits.model);
  }
  if (worktree.resumed) {
    json::Value conversation = json::Value::object();
    conversation.set("id", worktree.resumed->conversation_id);
    value.set("conversation", std::move(conversation));
  }
  // No inner sandbox below ours: it could not start, and its harness would run nothing and still succeed.
  value.set("providerSandbox", boundary.compiled.nested_allowed ? "own" : "delegated");
  json::Value credentials = json::Value::array();
  if (boundary.preset.credentials != boundary::Credentials::none) {
    for (const auto& key : profile.profile.credential_allowlist) {
      credentials.push(key);
    }
  }
  value.set("credentials", std::move(credentials));
  value.set("gateEndpoints", json::Value::array());
  json::Value options = json::Value::object();
  for (const auto& [key, text] : request.provider_options) {
    options.set(key, text);
  }
  value.set("providerOptions", std::move(options));
  return value;
}

struct Environment {
  std::map<std::string, std::string> plain;
  std::vector<std::string> secret_names;
  std::vector<attempt::Secret> secrets;
};

// A place in the conversation's own home needs no permission. What the boundary itself sets (HOME, PATH,
// TMPDIR, GIT_*, …) stays as the boundary says; every other name must stand on one of the profile's lists.
Status add_entry(Environment& environment, const plugins::EnvEntry& entry,
                 const profiles::SupportProfile& profile, const boundary::Preset& preset,
                 const std::string& inside_home) {
  if (entry.source == HR_ENV_HOME) {
    environment.plain[entry.name] = entry.value.empty() ? inside_home : inside_home + "/" + entry.value;
    return {};
  }
  if (environment.plain.count(entry.name) != 0) {
    return {};
  }
  const bool credential = contains(profile.credential_allowlist, entry.name);
  if (!credential && !contains(profile.environment_allowlist, entry.name)) {
    return Error{ErrorClass::refused,
                 "environment-key-not-allowed",
                 "build the environment",
                 entry.name,
                 "the adapter asks for a variable that the profile's allow-lists do not name",
                 "add it to launch.environmentAllowlist or launch.credentialAllowlist of the profile"};
  }
  if (entry.source == HR_ENV_LITERAL) {
    environment.plain[entry.name] = entry.value;
    return {};
  }
  const char* value = std::getenv(entry.name.c_str());
  // The profile says what a harness understands, the preset what of the operator's it may have.
  if (value == nullptr || *value == '\0' || (!credential && !contains(preset.environment, entry.name))) {
    return {};
  }
  if (credential && preset.credentials == boundary::Credentials::none) {
    return {};
  }
  // Whatever list it stands on: a value that its name calls a credential is redacted and takes the secrets'
  // way.
  if (credential || manifest::names_credential(entry.name)) {
    environment.secret_names.push_back(entry.name);
    environment.secrets.push_back({entry.name, value});
  } else {
    environment.plain[entry.name] = value;
  }
  return {};
}

// Every longer string of a login file counts as a known secret: what of it turns up in the stream is
// redacted.
void add_login_strings(const json::Value& value, std::vector<attempt::Secret>& secrets) {
  if (value.is_string() && value.as_string().size() >= 16) {
    secrets.push_back({"login-file", value.as_string()});
  }
  for (const auto& item : value.items()) {
    add_login_strings(item, secrets);
  }
  for (const auto& [key, member] : value.members()) {
    add_login_strings(member, secrets);
  }
}

Status add_login_secrets(const std::string& path, std::vector<attempt::Secret>& secrets) {
  HR_TRY(fd, open_no_symlinks(AT_FDCWD, path, O_RDONLY));
  HR_TRY(text, read_all(fd.get(), max_login_bytes));
  auto document = json::parse(text, json::Duplicates::first_wins, "login file");
  if (document.has_error()) {
    secrets.push_back({"login-file", text});
  } else {
    add_login_strings(document.value(), secrets);
  }
  return {};
}

}  // namespace

boundary::RunDirectories planned_directories(const Ground& ground, const std::string& attempt_id) {
  const std::string base = ground.state_path + "/" + attempt::attempts_folder + "/" + attempt_id;
  boundary::RunDirectories run;
  run.home.emplace().path = base + "/home";
  run.temp.emplace().path = base + "/temp";
  run.git.emplace().path = base + "/git";
  return run;
}

Result<PlanStage> stage_plan(const Ground& ground, const Request& request, const ProfileStage& profile,
                             const ProgramStage& program, const ProbeStage& probe,
                             const WorktreeStage& worktree, const BoundaryStage& boundary,
                             const TaskStage& task, const LimitsStage& limits, plugins::Planner& planner) {
  PlanStage stage;
  const boundary::Inside inside =
      boundary::inside(boundary.compiled, planned_directories(ground, task.attempt_id));
  const json::Value document = launch_json(request, profile, probe, worktree, boundary, limits, inside);
  HR_TRY(planned, planner.launch(json::write(document), worktree.resumed ? HR_LAUNCH_RESUME : HR_LAUNCH_NEW,
                                 task.request_text));
  stage.planned = std::move(planned);
  if (stage.planned.plan.transport != HR_TRANSPORT_STDIO) {
    return Error{ErrorClass::environment,
                 "transport-unsupported",
                 "plan",
                 profile.profile.id,
                 "this build starts harnesses on stdio only",
                 ""};
  }
  Environment environment;
  for (const auto& [name, value] : inside.environment) {
    environment.plain[name] = value;
  }
  for (const auto& [name, value] : git_identity(worktree.worktree)) {
    environment.plain[name] = value;
  }
  for (const auto& entry : stage.planned.plan.env) {
    HR_CHECK(add_entry(environment, entry, profile.profile, boundary.preset, inside.home));
  }
  if (boundary.login_file) {
    HR_CHECK(add_login_secrets(*boundary.login_file, environment.secrets));
  }
  stage.environment.assign(environment.plain.begin(), environment.plain.end());
  stage.secret_names = std::move(environment.secret_names);
  stage.secrets = std::move(environment.secrets);
  stage.command.executable = program.executable;
  stage.command.argv.push_back(program.executable.path);
  const auto& argv = stage.planned.plan.argv;
  stage.command.argv.insert(stage.command.argv.end(), argv.begin(), argv.end());
  stage.command.env = stage.environment;
  stage.command.secret_env = stage.secret_names;
  stage.command.cwd = inside.worktree;
  if (!worktree.worktree.subdirectory.empty()) {
    stage.command.cwd += "/" + worktree.worktree.subdirectory;
  }
  return stage;
}

}  // namespace hitchrail::launch
