// filesystem-sandbox-evidence/v1 and the policy hash. Paths of run directories are not in them: they are
// roles.
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
  if (grant.role == "system") {
    return "platform-runtime";
  }
  return grant.role == "worktree" || grant.role == "entry" ? "workspace" : "absolute";
}

// One entry a root; the landlock backend's entries are part of the worktree.
json::Value roots_of(const Compiled& compiled) {
  json::Value roots = json::Value::array();
  std::size_t number = 0;
  for (const Grant& grant : compiled.grants) {
    if (grant.role == "entry") {
      continue;
    }
    json::Value root = json::Value::object();
    root.set("id", grant.role + "-" + std::to_string(++number));
    root.set("access", grant.writable ? "write" : "read");
    root.set("scope", scope_of(grant));
    root.set("path", path_value(grant.source.path));
    root.set("pathDigest", sha256_prefixed(grant.source.path));
    roots.push(std::move(root));
  }
  const auto run_root = [&](const char* role) {
    json::Value root = json::Value::object();
    root.set("id", std::string("run-") + role);
    root.set("access", "write");
    root.set("scope", "run");
    roots.push(std::move(root));
  };
  if (compiled.run_directories) {
    run_root("home");
    run_root("temp");
    if (compiled.has_git) {
      run_root("git");
    }
  }
  for (const Root& denied : compiled.denied) {
    json::Value root = json::Value::object();
    root.set("id", "deny-" + std::to_string(++number));
    root.set("access", "deny");
    root.set("scope", "absolute");
    root.set("path", path_value(denied.path));
    root.set("pathDigest", sha256_prefixed(denied.path));
    roots.push(std::move(root));
  }
  return roots;
}

json::Value protected_of(const Compiled& compiled) {
  json::Value list = json::Value::array();
  for (const Protected& name : compiled.protected_names) {
    json::Value entry = json::Value::object();
    entry.set("root", path_value(name.root));
    entry.set("name", name.name);
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace

Status add_evidence(const std::string& preset_digest, Enforcement enforcement, const Machine& machine,
                    Compiled& compiled) {
  HR_TRY(filter, seccomp_filter({compiled.inet_sockets, compiled.unix_sockets}));
  json::Value policy = json::Value::object();
  policy.set("backend", backend_name(compiled.backend));
  policy.set("presetId", compiled.preset_id);
  policy.set("presetDigest", preset_digest);
  policy.set("enforcement", enforcement == Enforcement::required ? "required" : "advisory");
  policy.set("network", network_name(compiled.network));
  policy.set("unixSockets", compiled.unix_sockets ? "inside" : "socketpair-only");
  policy.set("roots", roots_of(compiled));
  policy.set("protected", protected_of(compiled));
  policy.set("dotfileMasking", compiled.dotfile_masking);
  policy.set("filterDigest", sha256_prefixed(filter));
  policy.set("maxProcesses", compiled.max_processes);
  policy.set("switchUser", compiled.switch_user);
  HR_TRY(hash, document_digest(policy));
  compiled.policy_hash = hash;

  const std::vector<std::string> proven = proven_capabilities(compiled, machine);
  std::vector<std::string> unproven;
  std::set_difference(capability_names().begin(), capability_names().end(), proven.begin(), proven.end(),
                      std::back_inserter(unproven));
  json::Value evidence = json::Value::object();
  evidence.set("schemaVersion", "filesystem-sandbox-evidence/v1");
  evidence.set("backend", backend_name(compiled.backend));
  evidence.set("state", compiled.blockers.empty() ? "enforced" : "unavailable");
  evidence.set("platformBackend",
               compiled.backend == Backend::native ? "linux-namespaces" : "linux-landlock");
  evidence.set("capabilityVersion", "hitchrail-boundary/v1");
  evidence.set("policyHash", hash);
  evidence.set("presetId", compiled.preset_id);
  evidence.set("network", network_name(compiled.network));
  evidence.set("landlockAbi", machine.landlock_abi);
  evidence.set("filterDigest", sha256_prefixed(filter));
  evidence.set("uid", compiled.uid);
  evidence.set("userSwitched", compiled.switch_user);
  evidence.set("proves", string_list(proven));
  evidence.set("doesNotProve", string_list(unproven));
  evidence.set("roots", roots_of(compiled));
  evidence.set("protectedPaths", protected_of(compiled));
  evidence.set("placeholders", "recorded");
  evidence.set("dotfileMasking", compiled.dotfile_masking);
  evidence.set("nestedGitHeld", static_cast<std::uint64_t>(compiled.nested_git.size()));
  evidence.set("descendantsEnforced", true);
  evidence.set("cleanupOwner", "finisher");
  compiled.evidence = std::move(evidence);
  return {};
}

}  // namespace hitchrail::boundary
