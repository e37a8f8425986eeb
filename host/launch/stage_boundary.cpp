// Stage `boundary`: preset and roots looked at once and compiled into an immutable value. Changes nothing.

#include <cstdlib>

#include "boundary/scan.hpp"
#include "launch/egress.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

Result<boundary::Backend> chosen_backend(const std::string& name) {
  if (name.empty()) {
    return boundary::backend_from_environment();
  }
  if (name == "native") {
    return boundary::Backend::native;
  }
  if (name == "landlock") {
    return boundary::Backend::landlock;
  }
  return Error{ErrorClass::usage,
               "backend-unknown",
               "choose the boundary backend",
               name,
               "the backends are native and landlock",
               "leave --backend out"};
}

namespace {

// The login file to bind in alone. A run that brings its credential in the environment, or talks to a
// provider of the operator's own, needs none; any other without a login is refused here, for the provider
// would only say so after minutes.
Result<std::optional<std::string>> find_login(const Request& request, const ProfileStage& profile) {
  auto variable = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  auto login = profiles::find_login_file(profile.profile, variable);
  if (login.has_value()) {
    if (!login.value()) {
      return std::optional<std::string>{};
    }
    HR_TRY(root, boundary::resolve_trusted(login.value()->path));
    return std::optional<std::string>{root.path};
  }
  bool other = !request.provider_options.empty();
  for (const auto& key : profile.profile.credential_allowlist) {
    other = other || variable(key).value_or("") != "";
  }
  if (other) {
    return std::optional<std::string>{};
  }
  return login.error();
}

// The operator's own files, which no root may contain or lie in.
void add_host_paths(const Ground& ground, boundary::Roots& roots) {
  roots.operator_home = home_directory();
  for (const std::string* path : {&ground.state_path, &ground.installation.config_dir}) {
    if (!path->empty()) {
      roots.host_private.push_back(*path);
    }
  }
  roots.host_installed.push_back(ground.installation.program_dir);
  for (const auto* dirs : {&ground.installation.plugin_dirs, &ground.installation.profile_dirs}) {
    roots.host_installed.insert(roots.host_installed.end(), dirs->begin(), dirs->end());
  }
}

}  // namespace

Status add_repository(const workspace::Worktree& worktree, boundary::Roots& roots) {
  HR_TRY(objects, boundary::resolve_root(worktree.object_stores.front()));
  roots.git_objects = std::move(objects);
  // Alternates of the repository's own object store, checked when it was opened.
  for (std::size_t i = 1; i < worktree.object_stores.size(); ++i) {
    HR_TRY(store, boundary::resolve_root(worktree.object_stores[i]));
    roots.read.push_back(std::move(store));
  }
  return {};
}

Result<boundary::Compiled> compile_boundary(const Ground& ground, const boundary::Preset& preset,
                                            boundary::Roots roots, const boundary::Options& options,
                                            std::vector<std::string>* absent) {
  add_host_paths(ground, roots);
  HR_CHECK(boundary::add_preset_paths(preset, roots, absent));
  const char* path = std::getenv("PATH");
  boundary::PathDirectories tools =
      boundary::path_directories(path != nullptr ? path : "", roots, ground.machine());
  roots.path = std::move(tools.roots);
  boundary::look_at_mounts(ground.machine(), ground.state_path, roots);
  HR_TRY(scanned, boundary::scan(preset, roots));
  roots.scan = std::make_shared<const boundary::Scan>(std::move(scanned));
  HR_TRY(compiled, boundary::compile(preset, roots, ground.machine(), options));
  for (const std::string& each : *absent) {
    compiled.warnings.push_back({"path-absent", "The preset grants " + each + ", which does not exist."});
  }
  return compiled;
}

Result<BoundaryStage> stage_boundary(const Ground& ground, const Request& request,
                                     const ProfileStage& profile, const ProgramStage& program,
                                     const WorktreeStage& worktree, const TrustStage& trust,
                                     PhaseStage phase) {
  BoundaryStage stage;
  HR_TRY(found, find_preset(ground.installation, ground.home ? &*ground.home : nullptr, request.sandbox));
  stage.chosen = std::move(found);
  stage.preset = *stage.chosen.preset;
  // A restricted launch covers what the harness would load.
  stage.preset.denied_paths.insert(stage.preset.denied_paths.end(), trust.denied_paths.begin(),
                                   trust.denied_paths.end());
  std::vector<std::string> relays = request.relays;
  if (stage.preset.network != boundary::Network::gate && !relays.empty()) {
    return Error{ErrorClass::usage,
                 "relay-without-gate",
                 "choose the sandbox preset",
                 request.relays.front(),
                 "The preset's network is " + std::string(boundary::network_name(stage.preset.network)) +
                     ", and only a gate has relays.",
                 "Leave --relay out, or choose a preset with network gate: repo-contained."};
  }
  narrow(phase, profile.profile, stage.preset, relays);
  HR_TRY(backend, chosen_backend(request.backend));
  if (stage.preset.credentials == boundary::Credentials::login) {
    HR_TRY(login, find_login(request, profile));
    stage.login_file = std::move(login);
  }

  boundary::Roots roots;
  HR_TRY(writable, boundary::inspect_writable_root(worktree.worktree.root));
  roots.worktree = std::move(writable);
  HR_CHECK(add_repository(worktree.worktree, roots));
  roots.packages = program.packages;
  if (stage.login_file) {
    HR_TRY(source, boundary::resolve_root(*stage.login_file, false));
    roots.credentials.push_back({std::move(source), profile.profile.login_home_path});
    roots.host_private.push_back(*stage.login_file);
  }
  boundary::Options options;
  options.backend = backend;
  HR_TRY(egress, egress_policy(relays, request.provider_options, profile.profile.provider_hosts));
  options.egress = std::move(egress);
  HR_TRY(proven, prove_backends(ground, stage.preset, backend));
  options.proven = proven;
  stage.proven = std::move(proven).value_or(std::vector<boundary::ProvenBackend>{});
  HR_TRY(compiled, compile_boundary(ground, stage.preset, std::move(roots), options, &stage.absent_paths));
  stage.compiled = std::move(compiled);
  HR_CHECK(judge_phase(phase, profile.profile, stage.preset, stage.compiled, stage.proven));
  stage.phase = std::move(phase);
  return stage;
}

}  // namespace hitchrail::launch
