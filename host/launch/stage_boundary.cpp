// Stage `boundary`: preset and roots looked at once and compiled into an immutable value. Changes nothing.

#include <sys/stat.h>

#include <cstdlib>

#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

Result<boundary::Backend> chosen_backend(const Request& request) {
  if (request.backend.empty()) {
    return boundary::backend_from_environment();
  }
  if (request.backend == "native") {
    return boundary::Backend::native;
  }
  if (request.backend == "landlock") {
    return boundary::Backend::landlock;
  }
  return Error{ErrorClass::usage,
               "backend-unknown",
               "choose the boundary backend",
               request.backend,
               "the backends are native and landlock",
               "leave --backend out"};
}

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

}  // namespace

Result<BoundaryStage> stage_boundary(const Ground& ground, const Request& request,
                                     const ProfileStage& profile, const ProgramStage& program,
                                     const WorktreeStage& worktree) {
  BoundaryStage stage;
  HR_TRY(preset, find_preset(ground.installation, request.sandbox));
  stage.preset = std::move(preset);
  HR_TRY(backend, chosen_backend(request));
  HR_TRY(login, find_login(request, profile));
  stage.login_file = std::move(login);

  boundary::Roots roots;
  HR_TRY(writable, boundary::inspect_writable_root(worktree.worktree.root));
  roots.worktree = std::move(writable);
  HR_TRY(objects, boundary::resolve_root(worktree.worktree.object_stores.front()));
  roots.git_objects = std::move(objects);
  // Alternates of the repository's own object store, checked when it was opened.
  for (std::size_t i = 1; i < worktree.worktree.object_stores.size(); ++i) {
    HR_TRY(store, boundary::resolve_root(worktree.worktree.object_stores[i]));
    roots.read.push_back(std::move(store));
  }
  roots.packages = program.packages;
  roots.operator_home = home_directory();
  roots.host_private = {ground.state_path, ground.installation.config_dir};
  if (stage.login_file) {
    HR_TRY(source, boundary::resolve_root(*stage.login_file, false));
    roots.credentials.push_back({std::move(source), profile.profile.login_home_path});
    roots.host_private.push_back(*stage.login_file);
  }
  roots.host_installed = {ground.installation.program_dir};
  for (const auto* dirs : {&ground.installation.plugin_dirs, &ground.installation.profile_dirs}) {
    roots.host_installed.insert(roots.host_installed.end(), dirs->begin(), dirs->end());
  }
  std::erase(roots.host_private, "");
  HR_CHECK(boundary::add_preset_paths(stage.preset, roots, &stage.absent_paths));
  boundary::Options options;
  options.backend = backend;
  HR_TRY(compiled, boundary::compile(stage.preset, roots, ground.machine(), options));
  stage.compiled = std::move(compiled);
  return stage;
}

// A preset by name from the profile folders in their order, or by path.
Result<boundary::Preset> find_preset(const Installation& installation, const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return boundary::load_preset(name);
  }
  for (const auto& dir : installation.profile_dirs) {
    const std::string path = dir + "/sandbox/" + name + ".yaml";
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
      return boundary::load_preset(path);
    }
  }
  return Error{ErrorClass::usage,
               "preset-not-found",
               "choose the sandbox preset",
               name,
               "no profile folder has sandbox/" + name + ".yaml",
               "the built-in preset is: workspace"};
}

}  // namespace hitchrail::launch
