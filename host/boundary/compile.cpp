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

// A user namespace opens mounts of /proc; the kernel settings there ask for no capability but for being uid
// 0.
void judge_nested_root(Compiled& out) {
  if (out.nested_allowed && out.run_uid == 0) {
    refuse(out, "nested-as-root", out.worktree,
           "The run would be uid 0 of this machine, and the preset lets it make namespaces of its own: it "
           "could change the kernel's settings.",
           "Use a preset that is required, a worktree on a file system with idmapped mounts (and no "
           "HITCHRAIL_OWN_UID=off), or a worktree of an ordinary user.");
  }
}

void add_warnings(const Roots& roots, const Machine& machine, Compiled& out) {
  if (out.backend == Backend::landlock) {
    auto missing = without(capability_names(), proven_capabilities(out, machine));
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
  if (out.git_has_denied) {
    out.warnings.push_back({"git-has-denied",
                            "Paths inside the worktree are denied or masked, and git's objects are not: what "
                            "was ever committed of them can be read (git show)."});
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

// Git's objects cannot be withheld one by one: a commit needs them all.
bool git_has_denied(const Compiled& out) {
  const auto inside = [&](const Root& root) {
    return root.path != out.worktree && contains(out.worktree, root.path) &&
           !contains(out.worktree + "/.git", root.path);
  };
  return out.has_git && (std::any_of(out.denied.begin(), out.denied.end(), inside) ||
                         std::any_of(out.masks.begin(), out.masks.end(), inside));
}

}  // namespace

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
  judge_nested_root(out);
  judge_paths(roots, out);
  take_scan(preset, roots, out);
  out.git_has_denied = git_has_denied(out);
  add_warnings(roots, machine, out);
  out.proof = options.proof;
  HR_CHECK(add_evidence(preset.digest, machine, out));
  return out;
}

}  // namespace hitchrail::boundary
