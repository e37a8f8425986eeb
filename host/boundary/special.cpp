// The two fixed boundaries: for provider probes, and for git on hostile repositories.
#include "boundary/internal.hpp"

namespace hitchrail::boundary {
namespace {

Preset fixed_preset(const char* id) {
  Preset preset;
  preset.id = id;
  preset.name = id;
  preset.network = Network::none;
  preset.required_capabilities = {"filesystem.read", "filesystem.write", "network.none", "sockets.outside"};
  preset.digest = std::string("fixed:") + id;
  return preset;
}

// Probes end in seconds; a program that forks without end must not take the machine with it.
constexpr std::uint64_t probe_processes = 256;

}  // namespace

Result<Compiled> probe_boundary(const std::vector<Root>& package_roots, const Machine& machine,
                                const Options& options) {
  Roots roots;
  roots.packages = package_roots;
  Options limited = options;
  limited.max_processes = probe_processes;
  return compile_with(fixed_preset("probe"), roots, machine, limited, true);
}

Result<Compiled> inspector_boundary(const Inspector& what, const Machine& machine, const Options& options) {
  Roots roots;
  roots.worktree = WritableRoot{what.worktree, {}, false};
  roots.worktree_read_only = true;
  roots.read = what.git_directories;
  Options limited = options;
  limited.max_processes = probe_processes;
  Preset preset = fixed_preset(what.import_git_dir ? "import" : what.network ? "fetch" : "inspector");
  if (what.network) {
    preset.network = Network::host;
    std::erase(preset.required_capabilities, "network.none");
  }
  HR_TRY(compiled, compile_with(preset, roots, machine, limited, true));
  compiled.protected_names.clear();
  for (const Root& root : what.writable) {
    compiled.grants.push_back({"scratch", root, root.path, true, false});
  }
  if (!what.import_git_dir) {
    return compiled;
  }
  const WritableRoot& git = *what.import_git_dir;
  compiled.grants.push_back({"git-dir", git.root, git.root.path, true, false});
  std::size_t needed = 0;
  for (const Entry& entry : git.entries) {
    const bool must = entry.name == "config" || entry.name == "hooks" || entry.name == "info";
    if (!must && entry.name != "config.worktree" && entry.name != "modules") {
      continue;
    }
    if (entry.kind != EntryKind::file && entry.kind != EntryKind::directory) {
      return Error{ErrorClass::refused,
                   "git-layout",
                   "compile import boundary",
                   git.root.path + "/" + entry.name,
                   "It is neither a file nor a directory.",
                   ""};
    }
    needed += must ? 1 : 0;
    compiled.protected_names.push_back({git.root.path, entry.name, entry.kind, entry.identity});
  }
  if (needed != 3) {
    return Error{ErrorClass::refused,
                 "git-layout",
                 "compile import boundary",
                 git.root.path,
                 "config, hooks and info must exist, so that they can be held read-only.",
                 "Create the missing ones."};
  }
  if (compiled.backend == Backend::landlock) {
    // git makes its lock files beside the configuration, and a rule that allows that covers the configuration
    // too.
    compiled.blockers.push_back(
        {Error{ErrorClass::environment, "import-unproven", "compile import boundary", git.root.path,
               "The landlock backend cannot hold a git directory's configuration while commits are "
               "imported.",
               "Import by hand with git fetch from the run's private git directory."}});
  }
  return compiled;
}

}  // namespace hitchrail::boundary
