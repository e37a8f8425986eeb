#include "launch/exec.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "boundary/recheck.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "launch/egress.hpp"
#include "launch/exec_directory.hpp"
#include "launch/home.hpp"
#include "launch/launch.hpp"
#include "launch/stages.hpp"
#include "pathfs/pathfs.hpp"
#include "store/store.hpp"
#include "workspace/inspector.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::launch {
namespace {

Error usage(std::string code, const std::string& object, std::string detail, std::string remedy = "") {
  return Error{ErrorClass::usage, std::move(code),  "read the options", object,
               std::move(detail), std::move(remedy)};
}

struct Place {
  std::optional<workspace::Worktree> repository;
  std::string root;  // canonical
  std::string cwd;
};

std::string absolute(const std::string& path) {
  std::error_code failed;
  std::string text = std::filesystem::absolute(path.empty() ? "." : path, failed).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') {
    text.pop_back();
  }
  return failed ? path : text;
}

Result<Place> find_place(const Ground& ground, const SandboxRequest& request) {
  workspace::OpenOptions options;
  options.trust_foreign_owner = request.trust_owner;
  options.keep_apart = {ground.state_path, ground.installation.config_dir};
  std::erase(options.keep_apart, "");
  Place place;
  auto repository = workspace::open_worktree(request.worktree, options);
  if (repository.has_value()) {
    place.root = repository.value().root;
    place.cwd = place.root;
    if (!repository.value().subdirectory.empty()) {
      place.cwd += "/" + repository.value().subdirectory;
    }
    place.repository = std::move(repository).value();
    return place;
  }
  if (repository.error().code != "worktree-not-a-repository") {
    return repository.error();
  }
  HR_TRY(root, boundary::resolve_root(absolute(request.worktree)));
  if (root.uid != ::geteuid() && ::geteuid() != 0 && !request.trust_owner) {
    return Error{ErrorClass::refused,
                 "worktree-foreign-owner",
                 "open worktree",
                 root.path,
                 "Another user owns this directory.",
                 "--trust-owner, if you trust them."};
  }
  place.root = place.cwd = root.path;
  return place;
}

// The search path of a command: the operator's, else the usual one.
std::string search_path() {
  const char* path = std::getenv("PATH");
  return path != nullptr && *path != '\0' ? path
                                          : "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
}

Result<boundary::Executable> find_program(const std::string& name, const std::string& cwd) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name[0] == '/' ? name : cwd + "/" + name);
  } else {
    const std::string path = search_path();
    for (std::size_t start = 0; start <= path.size();) {
      const std::size_t end = std::min(path.find(':', start), path.size());
      if (end > start && path[start] == '/') {
        candidates.push_back(path.substr(start, end - start) + "/" + name);
      }
      start = end + 1;
    }
  }
  std::optional<Error> worse;
  for (const std::string& candidate : candidates) {
    auto root = boundary::resolve_trusted(candidate);
    if (root.has_error() || root.value().directory) {
      continue;
    }
    auto executable = boundary::resolve_executable(root.value().path);
    if (executable.has_value()) {
      return executable;
    }
    worse = worse ? worse : executable.error();
  }
  return worse ? *worse : Error{ErrorClass::environment, "executable-missing",
                                "find command",          name,
                                "No such program.",      "Name it by its path, or set PATH."};
}

Status check_egress(const boundary::Preset& preset, const SandboxRequest& request) {
  if (preset.network != boundary::Network::gate && (!request.relays.empty() || !request.hosts.empty())) {
    return usage("relay-without-gate",
                 request.relays.empty() ? request.hosts.front() : request.relays.front(),
                 "The preset " + preset.id + " has network " + boundary::network_name(preset.network) +
                     ", and only a gate has relays and hosts.",
                 "--preset repo-contained");
  }
  return {};
}

struct Planned {
  Proofs proven;
  PresetInfo chosen;
  Place place;
  boundary::Compiled compiled;
  std::optional<boundary::Executable> program;
};

Result<Planned> plan(const Ground& ground, const SandboxRequest& request,
                     const std::vector<std::string>& command) {
  Planned planned;
  HR_TRY(chosen, find_preset(ground.installation, ground.home ? &*ground.home : nullptr, request.preset));
  planned.chosen = std::move(chosen);
  HR_TRY(backend, chosen_backend(request.backend));
  HR_TRY(place, find_place(ground, request));
  planned.place = std::move(place);
  boundary::Preset preset = *planned.chosen.preset;
  preset.read_paths.insert(preset.read_paths.end(), request.read.begin(), request.read.end());
  boundary::Roots roots;
  HR_TRY(writable, boundary::inspect_writable_root(planned.place.root));
  roots.worktree = std::move(writable);
  if (planned.place.repository) {
    HR_CHECK(add_repository(*planned.place.repository, roots));
  }
  if (!command.empty()) {
    HR_TRY(program, find_program(command.front(), planned.place.cwd));
    HR_TRY(package, boundary::package_root(program.path));
    if (package.path.rfind(planned.place.root + "/", 0) != 0) {
      roots.packages.push_back(std::move(package));
    }
    planned.program = std::move(program);
  }
  boundary::Options options;
  options.backend = backend;
  HR_TRY(proven, prove_backends(ground, preset, backend));
  options.proven = proven;
  planned.proven = std::move(proven);
  HR_CHECK(check_egress(preset, request));
  HR_TRY(egress, egress_policy(request.relays, {}, request.hosts));
  options.egress = std::move(egress);
  std::vector<std::string> absent;
  HR_TRY(compiled, compile_boundary(ground, preset, std::move(roots), options, &absent));
  planned.compiled = std::move(compiled);
  return planned;
}

// ---- the environment
// ----
using Variables = std::map<std::string, std::string>;

Status add_asked(const std::vector<std::string>& asked, const Variables& fixed, Variables& out) {
  for (const std::string& entry : asked) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name.empty()) {
      return usage("environment-name", entry, "A variable has a name.", "--env NAME or --env NAME=VALUE");
    }
    if (fixed.count(name) != 0 && name != "PATH" && name != "LANG") {
      return usage("environment-reserved", name, "The boundary sets this variable itself.", "Leave it out.");
    }
    const char* value = equals == std::string::npos ? std::getenv(name.c_str()) : nullptr;
    if (equals == std::string::npos && value == nullptr) {
      return usage("environment-unset", name, "It is to be taken over and is not set here.",
                   "Set it, or give its value: --env " + name + "=VALUE");
    }
    out[name] = equals == std::string::npos ? value : entry.substr(equals + 1);
  }
  return {};
}

Result<Variables> environment_of(const ExecRequest& request, const Planned& planned,
                                 const boundary::Inside& inside) {
  const Variables fixed(inside.environment.begin(), inside.environment.end());
  Variables out = fixed;
  for (const std::string& name : planned.chosen.preset->environment) {
    const char* value = std::getenv(name.c_str());
    if (value != nullptr && (fixed.count(name) == 0 || name == "LANG")) {
      out[name] = value;
    }
  }
  if (planned.place.repository) {
    for (const auto& [name, value] : git_identity(*planned.place.repository)) {
      out[name] = value;
    }
  }
  HR_CHECK(add_asked(request.environment, fixed, out));
  return out;
}

// ---- the run
// ----
Status claim(const Ground& ground, const store::StateHome& home, store::Store& database,
             const Planned& planned, const std::string& id) {
  HR_TRY(opened, pathfs::open_absolute(planned.place.root, O_PATH));
  HR_TRY(root, pathfs::identify(opened.get()));
  store::WorktreeLease lease;
  lease.attempt_id = id;
  lease.canonical_path = planned.place.root;
  lease.root = lease.git_dir = {root.device, root.inode};
  if (planned.place.repository) {
    lease.git_dir = {planned.place.repository->git_dir_id.device, planned.place.repository->git_dir_id.inode};
  }
  lease.acquired_unix_ms = unix_millis_now();
  return admit_worktree(ground, home, database, lease);
}

Result<boundary::RunDirectories> fill(const Ground& ground, const Planned& planned,
                                      const ExecDirectory& directory) {
  const boundary::Compiled& compiled = planned.compiled;
  if (planned.place.repository) {
    workspace::PrivateGitOptions options;
    if (compiled.backend == boundary::Backend::native) {
      options.objects_inside = boundary::inside_objects;
    }
    HR_TRY(git, workspace::prepare_private_git(*planned.place.repository, directory.fd(), directory.path(),
                                               options));
    (void)git;
    HR_CHECK(hide_masks(ground, *planned.place.repository, compiled, directory.fd()));
  }
  if (compiled.uid != ::geteuid() || compiled.gid != ::getegid()) {
    for (const char* name : {"home", "temp", "git"}) {
      HR_TRY(tree, open_at(directory.fd(), name, O_RDONLY | O_DIRECTORY));
      HR_CHECK(give_tree(tree.get(), compiled.uid, compiled.gid));
    }
  }
  boundary::RunDirectories run;
  HR_TRY(home, boundary::resolve_root(directory.path() + "/home"));
  HR_TRY(temp, boundary::resolve_root(directory.path() + "/temp"));
  run.home = std::move(home);
  run.temp = std::move(temp);
  if (planned.place.repository) {
    HR_TRY(git, boundary::resolve_root(directory.path() + "/git"));
    run.git = std::move(git);
  }
  return run;
}

std::string report_text(const workspace::RefReport& ref) {
  return ref.ref + (ref.to.empty() ? "" : " at " + ref.to) +
         (ref.reason.empty() ? "" : " (" + ref.reason + ")");
}

// Commits of the command: imported when asked, else named. What could not be imported keeps its git
// directory.
void take_commits(const Ground& ground, const ExecRequest& request, const Planned& planned,
                  ExecDirectory& directory, std::vector<std::string>& notes) {
  if (!planned.place.repository) {
    return;
  }
  workspace::OpenOptions options;
  options.trust_foreign_owner = request.sandbox.trust_owner;
  auto worktree = workspace::open_worktree(planned.place.root, options);
  const auto failed = [&](const Error& error) {
    notes.push_back("commits were not imported: " + error.code + ": " + error.detail + "; kept in " +
                    directory.path());
    directory.keep_git();
  };
  if (worktree.has_error() || worktree.value().identity() != planned.place.repository->identity()) {
    if (request.import_commits) {
      failed(worktree.has_error() ? worktree.error()
                                  : Error{ErrorClass::refused, "worktree-changed", "import commits",
                                          planned.place.root, "another worktree lies there now", ""});
    }
    return;
  }
  const auto policy =
      request.import_commits ? workspace::CommitPolicy::allowed : workspace::CommitPolicy::forbidden;
  auto report = workspace::import_commits(worktree.value(), directory.fd(), directory.path(), policy,
                                          workspace::inspector_git(ground.machine()));
  if (report.has_error()) {
    if (request.import_commits) {
      failed(report.error());
    }
    return;
  }
  for (const auto& ref : report.value().imported) {
    notes.push_back("imported " + report_text(ref));
  }
  for (const auto& ref : report.value().not_imported) {
    // An index goes with its branch: without --import it is not worth a line.
    if (ref.ref != "index" || request.import_commits) {
      notes.push_back("not imported: " + report_text(ref) + (request.import_commits ? "" : "; use --import"));
    }
  }
  if (request.import_commits && report.value().keep_private) {
    notes.push_back("what was not imported is kept in " + directory.path());
    directory.keep_git();
  }
}

Status gate_there(const Ground& ground, const boundary::Compiled& compiled) {
  if (compiled.network != boundary::Network::gate) {
    return {};
  }
  auto gate = open_program(ground.installation, "hitchrail-gate");
  if (gate.has_error()) {
    return Error{ErrorClass::environment,
                 "gate-missing",
                 "start boundary",
                 "hitchrail-gate",
                 "The preset's only way out is the gate, which is not installed.",
                 "Install Hitchrail completely."};
  }
  return {};
}

ExplainedPath explained(const boundary::Grant& grant) {
  static const std::map<std::string, const char*> why{
      {"system", "the system, for every run"},
      {"package", "the program's package"},
      {"path", "a folder of your PATH"},
      {"store", "the preset's package store"},
      {"read", "readPaths of the preset, or --read, or the repository's object store"},
      {"write-root", "writePaths of the preset"},
      {"worktree", "the worktree"},
      {"entry", "an entry of the worktree, granted by itself"},
      {"objects", "the repository's objects, for the private git directory"}};
  const auto found = why.find(grant.role);
  return {grant.source.path, grant.writable ? "write" : "read", grant.role,
          found == why.end() ? "" : found->second};
}

std::vector<ExplainedPath> explained_paths(const boundary::Compiled& compiled) {
  std::vector<ExplainedPath> paths;
  for (const boundary::Grant& grant : compiled.grants) {
    paths.push_back(explained(grant));
  }
  for (const boundary::Protected& name : compiled.protected_names) {
    const bool git = compiled.has_git && name.root == compiled.worktree && name.name == ".git";
    const bool absent = name.state == boundary::EntryKind::absent;
    paths.push_back({name.root + "/" + name.name, git ? "write" : "read", "protected",
                     git      ? "the run's private git directory is seen here"
                     : absent ? "a protected name that does not exist: it cannot be made"
                              : "a protected name"});
  }
  for (const boundary::Root& denied : compiled.denied) {
    paths.push_back({denied.path, "deny", "denied", "deniedPaths of the preset"});
  }
  for (const boundary::Root& mask : compiled.masks) {
    paths.push_back({mask.path, "deny", "mask", "dotfileMasking of the preset"});
  }
  std::stable_sort(paths.begin(), paths.end(),
                   [](const ExplainedPath& a, const ExplainedPath& b) { return a.path < b.path; });
  const bool fixed = compiled.fixed_inside;
  paths.push_back(
      {fixed ? boundary::inside_home : "HOME", "write", "run", "the run's own home, removed at its end"});
  paths.push_back({fixed ? "/tmp" : "TMPDIR", "write", "run", "the run's own temporary directory"});
  return paths;
}

}  // namespace

Result<ExecEnd> exec_in_sandbox(const ExecRequest& request) {
  if (request.command.empty()) {
    return usage("command-missing", "--", "No command was given.", "hitchrail sandbox exec -- true");
  }
  Request road;
  road.dirs = request.sandbox.dirs;
  HR_TRY(ground, survey(road, true));
  if (ground.home) {  // before anything is looked at: what a killed command left would be taken for the
                      // operator's
    HR_TRY(swept, sweep_commands(*ground.home));
    (void)swept;
  }
  HR_TRY(planned, plan(ground, request.sandbox, request.command));
  HR_CHECK(boundary::admit(planned.compiled));
  HR_CHECK(gate_there(ground, planned.compiled));
  // The environment is judged before anything is made; the directories' names do not matter for that.
  HR_TRY(judged, environment_of(request, planned, boundary::inside(planned.compiled, {})));
  (void)judged;

  HR_TRY(home, store::StateHome::open(store::Access::write));
  HR_TRY(database, store::Store::open(home));
  HR_TRY(directory, ExecDirectory::make(home));
  HR_CHECK(claim(ground, home, database, planned, directory.id()));
  HR_CHECK(record_selection(database, planned.chosen, "exec"));
  HR_TRY(run, fill(ground, planned, directory));
  HR_CHECK(boundary::recheck(planned.compiled, *planned.program, run, boundary::Recheck::all));
  HR_CHECK(boundary::make_placeholders(planned.compiled, directory.fd()));
  HR_TRY(variables, environment_of(request, planned, boundary::inside(planned.compiled, run)));
  boundary::Command command;
  command.executable = *planned.program;
  command.argv = request.command;
  command.env.assign(variables.begin(), variables.end());
  command.cwd = planned.place.cwd;
  ExecEnd end;
  HR_TRY(ended, boundary::run_attached(planned.compiled, command, run,
                                       [&](int init) { return directory.tell_init(init); }));
  end.end = ended;
  take_commits(ground, request, planned, directory, end.notes);
  HR_CHECK(directory.clean());
  return end;
}

Result<Explanation> explain_sandbox(const SandboxRequest& request, const std::vector<std::string>& command) {
  Request road;
  road.dirs = request.dirs;
  HR_TRY(ground, survey(road, false));
  HR_TRY(planned, plan(ground, request, command));
  Explanation explanation;
  explanation.chosen = std::move(planned.chosen);
  explanation.cwd = planned.place.cwd;
  explanation.paths = explained_paths(planned.compiled);
  explanation.compiled = std::move(planned.compiled);
  return explanation;
}

}  // namespace hitchrail::launch
