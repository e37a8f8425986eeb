// filesystem-sandbox-evidence/v1 and the policy hash. Digests, never paths: where something lies is for
// preview and explain. Run directories are roles, so that equal policies have equal hashes.
#include <algorithm>

#include "boundary/internal.hpp"
#include "core/canonical.hpp"

namespace hitchrail::boundary {
namespace {

json::Value string_list(const std::vector<std::string>& words) {
  json::Value list = json::Value::array();
  for (const std::string& word : words) {
    list.push(word);
  }
  return list;
}

std::string scope_of(const Grant& grant) {
  if (grant.role == "system" || grant.role == "package" || grant.role == "path") {
    return "platform-runtime";
  }
  return grant.role == "worktree" ? "workspace" : "absolute";
}

void add_root(json::Value& roots, std::string id, const char* access, const std::string& scope,
              const std::string& path) {
  json::Value root = json::Value::object();
  root.set("id", std::move(id));
  root.set("access", access);
  root.set("scope", scope);
  if (!path.empty()) {
    root.set("pathDigest", sha256_prefixed(path));
  }
  roots.push(std::move(root));
}

// One entry a root; the landlock backend's entries are part of the worktree.
json::Value roots_of(const Compiled& compiled) {
  json::Value roots = json::Value::array();
  std::size_t number = 0;
  for (const Grant& grant : compiled.grants) {
    if (grant.role != "entry") {
      add_root(roots, grant.role + "-" + std::to_string(++number), grant.writable ? "write" : "read",
               scope_of(grant), grant.source.path);
    }
  }
  if (compiled.run_directories) {
    add_root(roots, "run-home", "write", "run", "");
    add_root(roots, "run-temp", "write", "run", "");
    if (compiled.has_git) {
      add_root(roots, "run-git", "write", "run", "");
    }
  }
  for (const Root& denied : compiled.denied) {
    add_root(roots, "deny-" + std::to_string(++number), "deny", "absolute", denied.path);
  }
  return roots;
}

const char* mechanism_of(const Protected& name, const Compiled& compiled) {
  if (compiled.has_git && name.root == compiled.worktree && name.name == ".git") {
    return "private-git";
  }
  if (name.state != EntryKind::absent) {
    return compiled.backend == Backend::native ? "read-only" : "not-granted";
  }
  if (compiled.backend == Backend::landlock) {
    return "not-granted";  // no new name can be made at the top level at all
  }
  return compiled.overlay ? "overlay" : "placeholder";
}

json::Value protected_of(const Compiled& compiled) {
  json::Value list = json::Value::array();
  for (const Protected& name : compiled.protected_names) {
    json::Value entry = json::Value::object();
    entry.set("rootDigest", sha256_prefixed(name.root));
    const bool ours = std::any_of(protected_names().begin(), protected_names().end(),
                                  [&](const char* each) { return name.name == each; });
    // A name of the preset's own is part of a path of the operator's.
    entry.set("name", ours ? name.name : sha256_prefixed(name.name));
    entry.set("mechanism", mechanism_of(name, compiled));
    list.push(std::move(entry));
  }
  return list;
}

const char* absent_names(const Compiled& compiled) {
  return compiled.backend == Backend::landlock ? "not-granted" : compiled.overlay ? "overlay" : "placeholder";
}

const char* user_mode(const Compiled& compiled) {
  return compiled.idmapped ? "own" : compiled.switch_user ? "owner" : "same";
}

const char* state_of(const Compiled& compiled) {
  if (!compiled.blockers.empty()) {
    return "unavailable";
  }
  return compiled.enforcement == Enforcement::advisory ? "advisory" : "enforced";
}

json::Value policy_of(const std::string& preset_digest, const std::string& filter_digest,
                      const Compiled& compiled) {
  json::Value policy = json::Value::object();
  policy.set("backend", backend_name(compiled.backend));
  policy.set("presetId", compiled.preset_id);
  policy.set("presetDigest", preset_digest);
  policy.set("enforcement", compiled.enforcement == Enforcement::required ? "required" : "advisory");
  policy.set("network", network_name(compiled.network));
  policy.set("allowedHosts", string_list(compiled.allowed_hosts));
  if (compiled.gate) {
    policy.set("egress", compiled.gate->evidence);
  }
  policy.set("unixSockets", compiled.unix_sockets ? "inside" : "socketpair-only");
  policy.set("roots", roots_of(compiled));
  policy.set("protected", protected_of(compiled));
  policy.set("dotfileMasking", compiled.dotfile_masking);
  policy.set("credentials", credentials_name(compiled.credential_mode));
  policy.set("localOnlyHandles", compiled.local_only_handles);
  policy.set("nestedAllowed", compiled.nested_allowed);
  policy.set("filterDigest", filter_digest);
  policy.set("maxProcesses", compiled.max_processes);
  policy.set("maxMemory", compiled.max_memory);
  policy.set("userMode", user_mode(compiled));
  return policy;
}

}  // namespace

std::vector<std::string> digested_texts(const Compiled& compiled) {
  std::vector<std::string> out;
  for (const Grant& grant : compiled.grants) {
    out.push_back(grant.source.path);
  }
  for (const Root& denied : compiled.denied) {
    out.push_back(denied.path);
  }
  for (const Protected& name : compiled.protected_names) {
    out.push_back(name.root);
    out.push_back(name.name);
  }
  return out;
}

Status add_evidence(const std::string& preset_digest, const Machine& machine, Compiled& compiled) {
  HR_TRY(filter, seccomp_filter({compiled.inet_sockets, compiled.unix_sockets, compiled.nested_allowed}));
  const std::string filter_digest = sha256_prefixed(filter);
  compiled.policy = policy_of(preset_digest, filter_digest, compiled);
  HR_TRY(hash, document_digest(compiled.policy));
  compiled.policy_hash = hash;

  const std::vector<std::string> proven = proven_capabilities(compiled, machine);
  std::vector<std::string> unproven;
  std::set_difference(capability_names().begin(), capability_names().end(), proven.begin(), proven.end(),
                      std::back_inserter(unproven));
  json::Value evidence = json::Value::object();
  evidence.set("schemaVersion", "filesystem-sandbox-evidence/v1");
  evidence.set("backend", backend_name(compiled.backend));
  evidence.set("state", state_of(compiled));
  evidence.set("platformBackend",
               compiled.backend == Backend::native ? "linux-namespaces" : "linux-landlock");
  evidence.set("capabilityVersion", "hitchrail-boundary/v1");
  evidence.set("policyHash", hash);
  evidence.set("presetId", compiled.preset_id);
  evidence.set("presetDigest", preset_digest);
  evidence.set("network", network_name(compiled.network));
  if (compiled.gate) {
    json::Value egress = json::Value::object();
    egress.set("policyHash", compiled.gate->policy_hash);
    egress.set("allowedHosts", static_cast<std::uint64_t>(compiled.gate->rules.size()));
    egress.set("relays", static_cast<std::uint64_t>(compiled.gate->listeners.size() - 1));
    evidence.set("egress", std::move(egress));
  }
  evidence.set("landlockAbi", machine.landlock_abi);
  evidence.set("filterDigest", filter_digest);
  evidence.set("uid", compiled.uid);
  evidence.set("userMode", user_mode(compiled));
  evidence.set("proves", string_list(proven));
  evidence.set("doesNotProve", string_list(unproven));
  std::vector<std::string> not_held = compiled.unheld;
  if (compiled.git_has_denied) {
    not_held.emplace_back("git-has-denied");
  }
  evidence.set("notHeld", string_list(not_held));
  if (!compiled.proof.empty()) {
    evidence.set("proof", compiled.proof);
  }
  evidence.set("roots", roots_of(compiled));
  evidence.set("protectedPaths", protected_of(compiled));
  json::Value limits = json::Value::object();
  limits.set("memory", memory_limit_by(compiled));
  limits.set("processes", process_limit_by(compiled));
  evidence.set("limits", std::move(limits));
  evidence.set("dotfileMasking", compiled.dotfile_masking);
  evidence.set("nestedGitHeld", static_cast<std::uint64_t>(compiled.nested_git.size()));
  evidence.set("absentNames", absent_names(compiled));
  evidence.set("masks", static_cast<std::uint64_t>(compiled.masks.size()));
  evidence.set("nestedAllowed", compiled.nested_allowed);
  evidence.set("maxProcesses", compiled.max_processes);
  evidence.set("maxMemory", compiled.max_memory);
  // A Landlock domain and a filter are inherited; namespaces end with their init.
  evidence.set("descendantsEnforced", true);
  evidence.set("cleanupOwner", "finisher");
  compiled.evidence = std::move(evidence);
  return {};
}

}  // namespace hitchrail::boundary
