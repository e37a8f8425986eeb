// Stage `trust`: looks before the boundary is compiled, judges when it is, and looks again before the spawn.
// Changes nothing.

#include <algorithm>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/secret_shapes.hpp"
#include "core/text.hpp"
#include "launch/stages.hpp"
#include "launch/trust.hpp"
#include "launch/trust_store.hpp"

namespace hitchrail::launch {

namespace {

using workspace::RestrictionCheck;
using workspace::TrustEntry;
using workspace::TrustPosture;

constexpr std::size_t max_named = 100;  // instructions and loaded entries named one by one
constexpr std::int64_t repository_precedence = 150;

bool loaded_as(const TrustEntry& entry, TrustPosture posture) {
  return entry.loaded && entry.effect == posture;
}

// A name in a document: itself, or its digest where it could not stand there.
json::Value shown_path(const std::string& path) {
  return holds_secret_shape(path) ? json::Value::object({{"sha256", sha256_hex(path)}}) : path_value(path);
}

std::string instruction_id(const std::string& path) {
  const json::Value shown = shown_path(path);
  const bool plain = shown.is_string() && path.size() <= 140;
  return "repository:" + (plain ? path : "sha256:" + sha256_hex(path));
}

// Each text by its own fingerprint; what goes beyond a hundred, or beyond what is kept in memory, as one.
std::vector<manifest::Instruction> instructions_of(const workspace::TrustInventory& inventory) {
  std::vector<manifest::Instruction> out;
  std::string rest;
  for (const TrustEntry& entry : inventory.entries) {
    if (!loaded_as(entry, TrustPosture::model_influencing)) {
      continue;
    }
    if (entry.content_kept && out.size() < max_named) {
      out.push_back(
          {instruction_id(entry.path), "repository", entry.content, "workspace", repository_precedence});
    } else {
      rest += entry.fingerprint + " " + sha256_hex(entry.path) + "\n";
    }
  }
  if (!rest.empty()) {
    out.push_back({"repository-rest", "repository", std::move(rest), "workspace", repository_precedence});
  }
  return out;
}

bool within(const std::string& path, const std::string& root) {
  return path == root || (path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/');
}

// The seven checks, from what the boundary was compiled to and what the task asks for.
std::vector<RestrictionCheck> restriction_checks(const TrustStage& trust, const Request& request,
                                                 const WorktreeStage& worktree,
                                                 const BoundaryStage& boundary) {
  const boundary::Compiled& compiled = boundary.compiled;
  const std::string& root = worktree.worktree.root;
  const bool writes = std::any_of(compiled.grants.begin(), compiled.grants.end(), [&](const auto& grant) {
    return grant.writable && within(grant.source.path, root);
  });
  const bool enforced = compiled.enforcement == boundary::Enforcement::required && compiled.blockers.empty();
  const bool host_network = compiled.network == boundary::Network::host;
  // What the harness would load, and the boundary does not cover.
  std::size_t servers = 0;
  std::size_t executables = 0;
  for (const TrustEntry& entry : trust.inventory.entries) {
    const std::string path = root + "/" + entry.path;
    const bool covered = std::any_of(compiled.denied.begin(), compiled.denied.end(),
                                     [&](const auto& denied) { return within(path, denied.path); });
    if (loaded_as(entry, TrustPosture::executable) && !covered) {
      ++executables;
      servers += entry.kind == "tool-server-configuration" ? 1 : 0;
    }
  }
  const bool credentials = compiled.credentials.size() <= (boundary.login_file ? 1u : 0u);
  static const std::vector<manifest::SideEffect> none;
  const auto& effects = request.task.side_effects ? *request.task.side_effects : none;
  const bool external = std::any_of(effects.begin(), effects.end(), [](const auto& effect) {
    return effect.kind == "external-write" || effect.kind == "task-mutate";
  });
  const auto check = [](const char* id, bool holds, const char* good, const char* bad) {
    return RestrictionCheck{id, holds, holds ? good : bad};
  };
  return {check("filesystem-read-only", !writes, "The worktree is granted read-only.",
                "The worktree can be written."),
          check("filesystem-enforced", enforced, "The boundary is enforced.",
                "The preset is advisory, or something stands in the way of the boundary."),
          check("network-disabled", !host_network, "There is no network, or only the gate.",
                "The run has the host's network."),
          check("task-credentials-blocked", credentials, "Only the provider's own login is handed in.",
                "More credentials than the provider's own are handed in."),
          check("project-tool-servers-blocked", servers == 0,
                "The harness loads no tool server of the repository.",
                "The harness would load a tool server of the repository."),
          check("project-executable-configuration-blocked", executables == 0,
                "The harness loads no executable configuration of the repository.",
                "The harness would load executable configuration of the repository."),
          check("external-mutation-blocked", !external && !host_network,
                "Neither the task nor the network lets the run change anything outside.",
                "The task allows changes outside, or the host's network would.")};
}

json::Value checks_json(const std::vector<RestrictionCheck>& checks) {
  json::Value out = json::Value::array();
  for (const RestrictionCheck& check : checks) {
    out.push(json::Value::object({{"id", check.id}, {"holds", check.holds}, {"detail", check.detail}}));
  }
  return out;
}

json::Value loaded_json(const workspace::TrustInventory& inventory) {
  json::Value out = json::Value::array();
  for (const TrustEntry& entry : inventory.entries) {
    if (!entry.loaded || out.items().size() >= max_named) {
      continue;
    }
    json::Value one = json::Value::object({{"relativePath", shown_path(entry.path)},
                                           {"kind", entry.kind},
                                           {"posture", to_string(entry.effect)},
                                           {"sourceFingerprint", entry.fingerprint},
                                           {"byteLength", entry.byte_length}});
    if (!entry.problem.empty()) {
      one.set("problem", entry.problem);
    }
    out.push(std::move(one));
  }
  return out;
}

json::Value evidence_of(const TrustStage& trust) {
  const auto loaded =
      static_cast<std::uint64_t>(std::count_if(trust.inventory.entries.begin(), trust.inventory.entries.end(),
                                               [](const TrustEntry& entry) { return entry.loaded; }));
  json::Value out = json::Value::object({{"schemaVersion", "workspace-execution-trust/v1"}});
  out.set("status", to_string(trust.verdict.outcome));
  out.set("implicit", trust.verdict.implicit);
  out.set("requiresExplicitDecision", trust.verdict.requires_explicit_decision);
  out.set("reason", trust.verdict.reason);
  out.set("agent", trust.agent);
  out.set("identity", trust.identity.document);
  out.set("inventory",
          json::Value::object({{"digest", trust.inventory.digest},
                               {"scannerRevision", trust.inventory.document.get("scannerRevision")},
                               {"entryCount", static_cast<std::uint64_t>(trust.inventory.entries.size())},
                               {"loadedCount", loaded},
                               {"loaded", loaded_json(trust.inventory)}}));
  out.set("projectMaximum", to_string(trust.inventory.maximum));
  if (trust.standing.current) {
    out.set("decision", trust_decision_json(*trust.standing.current));
  } else if (trust.standing.other) {
    out.set("voidDecision", trust_decision_json(*trust.standing.other));
  }
  out.set("restrictionChecks", checks_json(trust.checks));
  return out;
}

Error changed(const TrustStage& trust, std::string detail) {
  return Error{ErrorClass::refused,
               "workspace-trust-changed",
               "look at the repository's instructions and configuration again",
               trust.inventory.digest,
               std::move(detail),
               "look at it and start again: hitchrail trust show"};
}

}  // namespace

Result<TrustStage> stage_trust(const Ground& ground, const Request& /*request*/, const ProfileStage& profile,
                               const WorktreeStage& worktree) {
  TrustStage stage;
  stage.agent = profile.profile.id;
  stage.files = trust_files(profile.profile);
  HR_TRY(identity, workspace::trust_identity(worktree.worktree));
  stage.identity = std::move(identity);
  HR_TRY(inventory, workspace::scan_trust(worktree.worktree, stage.files));
  stage.inventory = std::move(inventory);
  HR_TRY(decisions, trust_decisions(ground.home ? &*ground.home : nullptr, stage.identity.digest));
  stage.standing =
      workspace::trust_standing(decisions, stage.inventory.digest, stage.agent, unix_millis_now());
  if (wants_masks(stage.inventory, stage.standing)) {
    for (const TrustEntry& entry : stage.inventory.entries) {
      // What is no file of its own cannot be covered; the checks say so then.
      if (loaded_as(entry, TrustPosture::executable) && entry.problem.empty()) {
        stage.denied_paths.push_back("<workspace>/" + entry.path);
      }
    }
  }
  return stage;
}

Status judge_trust(TrustStage& trust, const Request& request, const WorktreeStage& worktree,
                   const BoundaryStage& boundary) {
  trust.checks = restriction_checks(trust, request, worktree, boundary);
  trust.verdict = judge_trust(trust.inventory, trust.standing, trust.checks);
  trust.evidence = evidence_of(trust);
  if (trust.verdict.outcome == workspace::TrustOutcome::untrusted) {
    const std::string line =
        trust.verdict.requires_explicit_decision
            ? allow_line(
                  {{}, request.dirs.profiles, worktree.worktree.root, trust.agent, request.trust_owner},
                  trust.inventory.digest)
            : "hitchrail trust show --agent " + trust.agent;
    trust.blocker = manifest::Finding{"workspace-untrusted", "workspaceTrust", trust.verdict.reason, line};
    return {};
  }
  trust.instructions = instructions_of(trust.inventory);
  return {};
}

Status recheck_trust(const Ground& /*ground*/, const TrustStage& trust, const WorktreeStage& worktree) {
  HR_TRY(identity, workspace::trust_identity(worktree.worktree));
  if (identity.digest != trust.identity.digest) {
    return changed(trust, "It is another repository, or its remote was changed.");
  }
  HR_TRY(inventory, workspace::scan_trust(worktree.worktree, trust.files));
  if (inventory.digest != trust.inventory.digest) {
    return changed(trust, "They were changed while the launch went on.");
  }
  // Opened again: there may have been no state directory when the launch began.
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_error() && home.error().code != "state-directory-absent") {
    return std::move(home).error();
  }
  HR_TRY(decisions, trust_decisions(home.has_value() ? &home.value() : nullptr, trust.identity.digest));
  const workspace::TrustStanding now =
      workspace::trust_standing(decisions, inventory.digest, trust.agent, unix_millis_now());
  const auto id = [](const std::optional<workspace::TrustDecision>& decision) {
    return decision ? decision->id + " " + std::string(to_string(decision->mode)) : std::string();
  };
  if (id(now.current) != id(trust.standing.current) || id(now.other) != id(trust.standing.other)) {
    return changed(trust, "Another decision was taken, or one has expired, while the launch went on.");
  }
  return {};
}

}  // namespace hitchrail::launch
