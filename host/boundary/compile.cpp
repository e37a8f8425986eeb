// The policy compiler: pure, from values to a value. Roots are judged first, then the best backend that
// proves every required capability is taken, then the grants are listed. What stands in the way is collected,
// so that preview shows all of it.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "boundary/internal.hpp"
#include "core/canonical.hpp"

namespace hitchrail::boundary {
namespace {

void block(Compiled& out, ErrorClass kind, std::string code, std::string object, std::string detail,
           std::string remedy = "") {
  out.blockers.push_back({Error{kind, std::move(code), "compile boundary", std::move(object),
                                std::move(detail), std::move(remedy)}});
}
void refuse(Compiled& out, std::string code, std::string object, std::string detail,
            std::string remedy = "") {
  block(out, ErrorClass::refused, std::move(code), std::move(object), std::move(detail), std::move(remedy));
}

bool has_protected_component(const std::string& path) {
  std::size_t start = 1;
  while (start < path.size()) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part(path.data() + start, end - start);
    for (const char* name : protected_names()) {
      if (part == name) {
        return true;
      }
    }
    start = end + 1;
  }
  return false;
}

// ---- refused roots
// -----------------------------------------------------------------------------------------------------------
bool too_wide(const std::string& path, const Roots& roots, bool writable) {
  static constexpr std::string_view always[] = {"/",    "/etc", "/boot", "/dev",  "/proc", "/sys",
                                                "/run", "/var", "/home", "/root", "/opt",  "/tmp"};
  static constexpr std::string_view written[] = {"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                                 "/lib64", "/libx32", "/srv",  "/mnt", "/media"};
  const auto is = [&](std::string_view name) { return path == name; };
  if (std::any_of(std::begin(always), std::end(always), is) ||
      (writable && std::any_of(std::begin(written), std::end(written), is))) {
    return true;
  }
  for (const char* kernel : {"/dev", "/proc", "/sys"}) {
    if (contains(kernel, path)) {
      return true;
    }
  }
  return !roots.operator_home.empty() && roots.operator_home != "/" && contains(path, roots.operator_home);
}

bool overlaps(const std::string& a, const std::string& b) {
  return contains(a, b) || contains(b, a);
}

// Deny wins over an ancestor's grant. A deeper grant decides for itself (judge_paths()), but for the
// worktree: a preset that denies what a run is for is a mistake, not a decision.
void judge_root(const Root& root, const Roots& roots, bool writable, Compiled& out) {
  if (too_wide(root.path, roots, writable)) {
    refuse(out, "root-too-wide", root.path, "This directory holds more than one run may have.",
           "Use a project directory of its own.");
  }
  if (contains("/hitchrail", root.path)) {
    refuse(out, "root-overlaps-host", root.path, "/hitchrail is where a run's own directories appear.", "");
  }
  const auto against = [&](const std::vector<std::string>& paths, const char* what) {
    for (const std::string& path : paths) {
      if (!path.empty() && overlaps(root.path, path)) {
        refuse(out, "root-overlaps-host", root.path, std::string("It overlaps ") + what + " " + path + ".",
               "Keep the worktree and Hitchrail's own directories apart.");
      }
    }
  };
  against(roots.host_private, "Hitchrail's state, configuration or a credential:");
  if (writable) {
    against(roots.host_installed, "Hitchrail's programs, plugins or profiles:");
    if (has_protected_component(root.path)) {
      refuse(out, "protected-root", root.path, "A component of the path is a protected name.",
             "Move the worktree out of .git, .agents, .codex, .claude or .hitchrail.");
    }
  }
  if (root.remote && out.local_only_handles) {
    refuse(out, "root-remote", root.path,
           "Another machine serves this file system, and the preset wants local files.",
           "Use a worktree on a disk of this machine.");
  }
  const bool worktree = roots.worktree && roots.worktree->root.path == root.path;
  for (const Root& denied : roots.denied) {
    if (worktree ? contains(denied.path, root.path) : denied.path == root.path) {
      refuse(out, "root-denied", root.path, "The preset denies " + denied.path + ", and deny wins.");
    }
  }
}

// `mounts`: of the machine, where the roots were not scanned (which judges mounts itself).
void judge_writable(const WritableRoot& writable, const std::vector<std::string>& mounts, Compiled& out) {
  for (const Entry& entry : writable.entries) {
    const bool is_protected = std::any_of(protected_names().begin(), protected_names().end(),
                                          [&](const char* name) { return entry.name == name; });
    const std::string path = writable.root.path + "/" + entry.name;
    if (is_protected && entry.kind == EntryKind::symlink) {
      refuse(out, "protected-name-symlink", path, "A protected name is a symbolic link.",
             "Replace the link by what it points to.");
    } else if (is_protected && entry.kind == EntryKind::other) {
      refuse(out, "protected-name-type", path, "A protected name is neither a file nor a directory.",
             "Remove it.");
    }
  }
  for (const std::string& mount : mounts) {
    if (mount != writable.root.path && contains(writable.root.path, mount)) {
      refuse(out, "nested-mount", mount, "Another file system is mounted inside the writable root.",
             "Unmount it, or use a worktree without mounts inside.");
    }
  }
}

void judge_roots(const Roots& roots, const Machine& machine, Compiled& out) {
  const std::vector<std::string> mounts = roots.scan ? std::vector<std::string>{} : machine.mount_points;
  if (roots.worktree) {
    judge_root(roots.worktree->root, roots, !roots.worktree_read_only, out);
    if (!roots.worktree_read_only) {
      judge_writable(*roots.worktree, mounts, out);
    }
  }
  for (const WritableRoot& root : roots.write) {
    judge_root(root.root, roots, true, out);
    judge_writable(root, mounts, out);
  }
  for (const Root& root : roots.read) {
    judge_root(root, roots, false, out);
  }
  for (const Root& root : roots.stores) {
    judge_root(root, roots, false, out);
  }
  for (const Root& root : roots.packages) {
    judge_root(root, roots, false, out);
  }
}

// ---- backend
// -----------------------------------------------------------------------------------------------------------------
std::vector<std::string> proven_by(Backend backend, const Machine& machine, Network network) {
  std::vector<std::string> proven;
  const bool native = backend == Backend::native;
  if (native) {
    proven = {
        "filesystem.denied", "filesystem.metadata", "filesystem.private-tmp", "filesystem.protected-names",
        "filesystem.read",   "filesystem.set-id",   "filesystem.write",       "ipc.isolation",
        "kernel.surface",    "process.isolation",   "process.settings",       "process.tree",
        "sockets.outside",   "workspace.usable"};
    // Abstract names belong to the network namespace: only a scope, or a namespace of its own, closes them.
    if (rights::scoped(machine.landlock_abi) != 0 || network != Network::host) {
      proven.emplace_back("sockets.abstract");
    }
  } else {
    proven = {"filesystem.denied", "filesystem.protected-names",
              "filesystem.read",   "filesystem.set-id",
              "filesystem.write",  "kernel.surface",
              "sockets.abstract",  "sockets.outside",
              "workspace.usable"};
    if (rights::scoped(machine.landlock_abi) != 0) {
      proven.emplace_back("process.isolation");
    }
  }
  if (network == Network::none) {
    proven.emplace_back("network.none");
  }
  if (network == Network::gate && native) {
    proven.emplace_back("network.gate");
  }
  std::sort(proven.begin(), proven.end());
  return proven;
}

std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& less) {
  std::vector<std::string> rest;
  std::set_difference(all.begin(), all.end(), less.begin(), less.end(), std::back_inserter(rest));
  return rest;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

// Why this backend cannot be had here; empty when it can.
std::vector<Finding> obstacles(Backend backend, const Machine& machine) {
  std::vector<Finding> found;
  const bool native = backend == Backend::native;
  for (const Finding& finding : machine.missing) {
    const bool landlock_only = finding.code == "landlock-abi-old" || finding.code == "landlock-missing";
    const bool both = finding.code == "seccomp-missing" || finding.code == "init-missing";
    if (both || (native ? !landlock_only : landlock_only)) {
      found.push_back(finding);
    }
  }
  return found;
}

bool usable(Backend backend, const Machine& machine, const Compiled& out) {
  if (!machine.seccomp) {
    return false;
  }
  if (backend == Backend::native) {
    const bool net = out.network == Network::host || !out.run_directories || machine.net_namespace;
    return machine.user_namespaces && machine.mount_api && machine.pid_namespace && net;
  }
  return machine.landlock_abi >= 3;  // before, a file outside could be truncated
}

// What of `required` this backend does not hold by its design, or, with proofs, was not proved to hold here.
std::vector<std::string> unproven_of(const std::vector<std::string>& required, Backend backend,
                                     const Machine& machine, const Options& options, Network network) {
  std::vector<std::string> missing = without(required, proven_by(backend, machine, network));
  if (!options.proven) {
    return missing;
  }
  const auto& all = *options.proven;
  const auto proof = std::find_if(all.begin(), all.end(),
                                  [&](const ProvenBackend& each) { return each.backend == backend; });
  const std::vector<std::string> found =
      without(required, proof == all.end() ? std::vector<std::string>{} : proof->capabilities);
  missing.insert(missing.end(), found.begin(), found.end());
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

// The probes that decided against a backend, for the refusal's text.
std::string failed_probes(Backend backend, const Options& options) {
  if (options.proven) {
    for (const ProvenBackend& each : *options.proven) {
      if (each.backend == backend && !each.failed.empty()) {
        return " Probes: " + joined(each.failed) + ".";
      }
    }
  }
  return "";
}

// What an advisory preset goes without is said, in preview and evidence. Its own sandbox below Landlock alone
// could not mount anything, would run nothing and still succeed: that is no run.
void take_advisory(const std::vector<std::string>& unproven, Compiled& out) {
  out.unheld = unproven;
  for (const std::string& capability : unproven) {
    out.warnings.push_back(
        {"capability-unheld", "Not held here, and the preset only advises it: " + capability + "."});
  }
  if (out.backend == Backend::landlock) {
    block(out, ErrorClass::environment, "nested-unavailable", "backend landlock",
          "The provider's own sandbox could start nothing below this backend.",
          "Use a required preset, or a machine where the native backend works.");
    return;
  }
  out.nested_allowed = true;
  out.warnings.push_back(
      {"advisory-preset",
       "User namespaces and mounts are allowed inside, and Landlock holds no files: a tool command can "
       "change the harness's memory. The provider's own sandbox stays on."});
}

void choose_backend(const Preset& preset, const Machine& machine, const Options& options, Compiled& out) {
  std::vector<std::string> required = preset.required_capabilities;
  if (options.proven && preset.enforcement == Enforcement::required) {
    required.insert(required.end(), {"kernel.surface", "workspace.usable"});
  }
  if (out.network == Network::gate &&
      std::find(required.begin(), required.end(), "network.gate") == required.end()) {
    required.emplace_back("network.gate");
  }
  std::sort(required.begin(), required.end());
  required.erase(std::unique(required.begin(), required.end()), required.end());
  const auto unproven = [&](Backend backend) {
    return unproven_of(required, backend, machine, options, out.network);
  };
  const auto fits = [&](Backend backend) {
    return usable(backend, machine, out) && unproven(backend).empty();
  };
  std::vector<Backend> candidates{Backend::native, Backend::landlock};
  if (options.backend != Backend::automatic) {
    candidates = {options.backend};
  }
  out.backend = candidates.front();
  for (const Backend candidate : candidates) {
    if (fits(candidate) || (out.enforcement == Enforcement::advisory && usable(candidate, machine, out))) {
      out.backend = candidate;
      if (out.enforcement == Enforcement::advisory && out.run_directories) {
        take_advisory(unproven(candidate), out);
      }
      return;
    }
  }
  for (const Backend candidate : candidates) {
    const std::string name = candidate == Backend::native ? "native" : "landlock";
    for (const Finding& finding : obstacles(candidate, machine)) {
      const bool listed = std::any_of(out.blockers.begin(), out.blockers.end(), [&](const Blocker& blocker) {
        return blocker.error.code == finding.code;
      });
      if (!listed) {
        block(out, ErrorClass::environment, finding.code, "backend " + name, finding.detail, finding.remedy);
      }
    }
    if (usable(candidate, machine, out) && !unproven(candidate).empty()) {
      refuse(out, "capability-unproven", "backend " + name,
             "The preset requires what this backend does not prove: " + joined(unproven(candidate)) + "." +
                 failed_probes(candidate, options),
             "See: hitchrail sandbox probe. Run on a machine with user namespaces and mount rights "
             "(hitchrail doctor), or choose another "
             "preset.");
    }
  }
  if (out.blockers.empty()) {
    block(out, ErrorClass::environment, "boundary-unavailable", "backend",
          "No backend works on this machine.", "Run: hitchrail doctor");
  }
}

// ---- network
// ------------------------------------------------------------------------------------------------------------------
void compile_gate(const Preset& preset, const Options& options, Compiled& out) {
  if (out.network != Network::gate) {
    return;
  }
  gate::Policy policy = options.egress;
  policy.hosts.insert(policy.hosts.end(), preset.allowed_hosts.begin(), preset.allowed_hosts.end());
  auto compiled = gate::compile(policy);
  if (compiled.has_error()) {
    out.blockers.push_back({std::move(compiled).error()});
    return;
  }
  out.gate = std::move(compiled).value();
}

// ---- grants
// ------------------------------------------------------------------------------------------------------------------
void add_system(const Machine& machine, Compiled& out) {
  for (const SystemPath& path : machine.system) {
    out.grants.push_back({"system", path.source, path.target, false, true});
  }
  out.links = machine.links;
  out.devices = machine.devices;
  if (out.nested_allowed && machine.terminal) {
    out.devices.push_back(*machine.terminal);  // nobody's here: the run is in a session without a terminal
  }
  out.proc = machine.proc;
  out.shell = machine.shell.empty() ? out.shell : machine.shell;
}

bool denied(const std::string& path, const Compiled& out) {
  return std::any_of(out.denied.begin(), out.denied.end(),
                     [&](const Root& root) { return contains(root.path, path); });
}

// A Landlock rule cannot be taken back below: what is denied inside something granted cannot be held.
void judge_denied_inside(Compiled& out) {
  for (const Root& root : out.denied) {
    for (const Grant& grant : out.grants) {
      const bool split = grant.writable && (grant.role == "worktree" || grant.role == "write-root");
      if (!split && contains(grant.source.path, root.path)) {
        refuse(out, "deny-unproven", root.path,
               "The landlock backend cannot deny it inside " + grant.source.path + ", which is granted.",
               "Use a machine where the native backend works, or take the path out of the preset.");
        break;
      }
    }
  }
}

void add_writable(const WritableRoot& writable, const std::string& role, bool read_only, const Roots& roots,
                  Compiled& out) {
  out.grants.push_back({role, writable.root, writable.root.path, !read_only, true});
  for (const char* name : protected_names()) {
    Protected entry{writable.root.path, name, EntryKind::absent, {}, false};
    for (const Entry& found : writable.entries) {
      if (found.name == name) {
        entry.state = found.kind;
        entry.identity = found.identity;
      }
    }
    const bool private_git = roots.git_objects && role == "worktree" && std::string_view(name) == ".git";
    entry.overlay = entry.state == EntryKind::absent && writable.overlay && !read_only && !private_git &&
                    out.backend == Backend::native;
    out.overlay = out.overlay || entry.overlay;
    out.protected_names.push_back(entry);
  }
  if (out.backend != Backend::landlock || read_only) {
    return;
  }
  if (writable.too_many_entries) {
    refuse(out, "too-many-entries", writable.root.path,
           "The landlock backend grants the top-level entries one by one, at most 4096.",
           "Use a machine where the native backend works.");
  }
  for (const Entry& entry : writable.entries) {
    const bool is_protected = std::any_of(protected_names().begin(), protected_names().end(),
                                          [&](const char* name) { return entry.name == name; });
    if (is_protected || entry.kind == EntryKind::symlink || entry.kind == EntryKind::other) {
      continue;
    }
    if (denied(writable.root.path + "/" + entry.name, out)) {
      continue;
    }
    const Root source{writable.root.path + "/" + entry.name, entry.identity,
                      entry.kind == EntryKind::directory, writable.root.uid, writable.root.gid};
    out.grants.push_back({"entry", source, source.path, true, true});
  }
}

void add_grants(const Roots& roots, const Machine& machine, Compiled& out) {
  out.denied = roots.denied;
  add_system(machine, out);
  for (const Root& root : roots.packages) {
    out.grants.push_back({"package", root, root.path, false, true});
  }
  for (const Root& root : roots.path) {
    out.grants.push_back({"path", root, root.path, false, true});
    out.path_directories.push_back(root.path);
  }
  for (const Root& root : roots.read) {
    out.grants.push_back({"read", root, root.path, false, true});
  }
  for (const Root& root : roots.stores) {
    out.grants.push_back({"store", root, root.path, false, true});
  }
  if (roots.worktree) {
    out.worktree = roots.worktree->root.path;
    add_writable(*roots.worktree, "worktree", roots.worktree_read_only, roots, out);
  }
  for (const WritableRoot& root : roots.write) {
    add_writable(root, "write-root", false, roots, out);
  }
  if (roots.git_objects) {
    out.has_git = true;
    const bool fixed = out.backend == Backend::native;
    out.grants.push_back(
        {"objects", *roots.git_objects, fixed ? inside_objects : roots.git_objects->path, false, false});
    for (const Protected& name : out.protected_names) {
      out.git_file =
          out.git_file || (name.root == out.worktree && name.name == ".git" && name.state == EntryKind::file);
    }
  }
  out.credentials = roots.credentials;
  const bool readable =
      !out.switch_user ||
      (out.idmapped && std::all_of(out.credentials.begin(), out.credentials.end(),
                                   [&](const CredentialFile& file) { return file.source.uid == out.uid; }));
  out.copy_credentials = out.backend == Backend::landlock || !readable;
  if (out.backend == Backend::landlock) {
    judge_denied_inside(out);
  }
}

void choose_user(const Roots& roots, const Machine& machine, Compiled& out) {
  constexpr std::uint32_t ordinary = 1000;  // inside, instead of 0
  out.uid = out.run_uid = machine.uid;
  out.gid = out.run_gid = machine.gid;
  if (machine.uid == 0 && roots.worktree) {
    out.idmapped = roots.idmapped && out.backend == Backend::native && out.run_directories;
    out.switch_user = out.idmapped || roots.worktree->root.uid != 0;
  }
  if (out.switch_user) {
    out.uid = roots.worktree->root.uid;
    out.gid = roots.worktree->root.gid;
    out.run_uid = out.idmapped ? roots.run_id : out.uid;
    out.run_gid = out.idmapped ? roots.run_id : out.gid;
  }
  out.inside_uid = out.uid;
  out.inside_gid = out.gid;
  if (out.uid == 0 && (out.idmapped || out.nested_allowed)) {
    out.inside_uid = out.inside_gid = ordinary;
  }
}

void add_warnings(const Roots& roots, const Machine& machine, Compiled& out) {
  if (out.backend == Backend::landlock) {
    auto missing = without(capability_names(), proven_by(Backend::landlock, machine, out.network));
    std::erase_if(missing, [](const std::string& name) { return name.rfind("network.", 0) == 0; });
    out.warnings.push_back(
        {"backend-landlock", "Not held by this backend: " + joined(missing) +
                                 ". No new name can be made at the top level of the worktree."});
  } else if (machine.landlock_abi < 6) {
    out.warnings.push_back({"landlock-second-layer",
                            "Landlock here is ABI " + std::to_string(machine.landlock_abi) +
                                ": signals to init are stopped by the pid namespace only" +
                                (out.network == Network::host
                                     ? ", and abstract sockets of the host's network can be connected to."
                                     : ".")});
  }
  if (out.network == Network::host) {
    out.warnings.push_back({"network-host", "The preset gives the run the host's network."});
  }
  if (out.run_uid == 0) {
    out.warnings.push_back({"uid-0",
                            "The run keeps uid 0 (root owns the worktree, and its file system takes no "
                            "idmapped mount); held by subset=pid, Landlock and the "
                            "set-id filter."});
  }
  const bool absent =
      std::any_of(out.protected_names.begin(), out.protected_names.end(),
                  [](const Protected& name) { return name.state == EntryKind::absent && !name.overlay; });
  if (absent && roots.worktree && !roots.worktree_read_only && out.backend == Backend::native) {
    out.warnings.push_back({"placeholders",
                            "Absent protected names are empty directories in the worktree while the run "
                            "lasts."});
  }
}

}  // namespace

const std::vector<std::string>& capability_names() {
  static const std::vector<std::string> names{
      "filesystem.denied", "filesystem.metadata", "filesystem.private-tmp", "filesystem.protected-names",
      "filesystem.read",   "filesystem.set-id",   "filesystem.write",       "ipc.isolation",
      "kernel.surface",    "network.gate",        "network.none",           "process.isolation",
      "process.settings",  "process.tree",        "sockets.abstract",       "sockets.outside",
      "workspace.usable"};
  return names;
}

bool backend_usable(Backend backend, const Machine& machine) {
  return usable(backend, machine, Compiled{});  // with the host's network
}

const char* backend_name(Backend backend) {
  return backend == Backend::native ? "native" : "landlock";
}

std::vector<std::string> proven_capabilities(const Compiled& compiled, const Machine& machine) {
  return proven_by(compiled.backend, machine, compiled.network);
}

Result<Backend> backend_from_environment() {
  const char* value = std::getenv("HITCHRAIL_BOUNDARY_BACKEND");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty() || name == "auto") {
    return Backend::automatic;
  }
  if (name == "native") {
    return Backend::native;
  }
  if (name == "landlock") {
    return Backend::landlock;
  }
  return Error{ErrorClass::usage,
               "backend-unknown",
               "read environment",
               "HITCHRAIL_BOUNDARY_BACKEND",
               "Known backends: native, landlock, auto.",
               ""};
}

Status admit(const Compiled& compiled) {
  if (!compiled.blockers.empty()) {
    return compiled.blockers.front().error;
  }
  return {};
}

Result<Compiled> compile(const Preset& preset, const Roots& roots, const Machine& machine,
                         const Options& options) {
  return compile_with(preset, roots, machine, options, false);
}

Result<Compiled> compile_with(const Preset& preset, const Roots& roots, const Machine& machine,
                              const Options& options, bool fixed) {
  Compiled out;
  out.run_directories = !fixed;
  out.preset_id = preset.id;
  out.network = preset.network;
  out.allowed_hosts = preset.allowed_hosts;
  out.enforcement = preset.enforcement;
  out.credential_mode = preset.credentials;
  out.local_only_handles = preset.local_only_handles;
  out.max_memory = options.max_memory != 0 ? options.max_memory : preset.max_memory;
  out.max_processes = options.max_processes != 0 ? options.max_processes : preset.max_processes;
  judge_roots(roots, machine, out);
  choose_backend(preset, machine, options, out);
  out.fixed_inside = out.backend == Backend::native;
  out.unix_sockets = out.backend == Backend::native && !fixed;
  out.net_namespace = out.backend == Backend::native && out.network != Network::host && machine.net_namespace;
  out.inet_sockets = out.network == Network::host || (out.net_namespace && !fixed);
  out.landlock_abi = machine.landlock_abi;
  out.control_groups = machine.control_groups;
  compile_gate(preset, options, out);
  choose_user(roots, machine, out);
  add_grants(roots, machine, out);
  judge_paths(roots, out);
  take_scan(preset, roots, out);
  add_warnings(roots, machine, out);
  out.proof = options.proof;
  HR_CHECK(add_evidence(preset.digest, machine, out));
  return out;
}

}  // namespace hitchrail::boundary
