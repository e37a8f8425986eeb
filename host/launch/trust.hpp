#pragma once
// Stage `trust`: what the repository holds that this harness would take as instruction or configuration, and
// whether somebody with the right to say so has let it. Also the service behind `hitchrail trust`.
//
// Promises: nothing is written but decisions that were asked for; a decision records exactly the inventory
// that was shown (its digest is named, and another one is refused); who decided is the uid of this process.
// Refuses: workspace-untrusted (a blocker of the manifest), trust-inventory-changed, trust-decision-limit,
// trust-expires, trust-reason, trust-inventory-missing, workspace-trust-changed (second look).

#include <optional>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "manifest/manifest.hpp"
#include "workspace/trust_decision.hpp"
#include "workspace/trust_scan.hpp"

namespace hitchrail::launch {

struct Ground;
struct Request;
struct ProfileStage;
struct ProgramStage;
struct WorktreeStage;
struct BoundaryStage;

struct TrustStage {
  workspace::TrustIdentity identity;
  workspace::TrustInventory inventory;
  workspace::TrustFiles files;  // what the profile says, for the second look
  workspace::TrustStanding standing;
  std::string agent;  // profile id
  // Policy paths that the boundary has to deny: what a restricted launch may not load.
  std::vector<std::string> denied_paths;

  // Set by judge_trust(), when the boundary is known:
  workspace::TrustVerdict verdict;
  std::vector<workspace::RestrictionCheck> checks;
  json::Value evidence;                             // the manifest's workspaceTrust
  std::vector<manifest::Instruction> instructions;  // kind repository, precedence 150
  std::optional<manifest::Finding> blocker;         // workspace-untrusted
};
// Between worktree and boundary; denied_paths go into the preset before it is compiled.
Result<TrustStage> stage_trust(const Ground& ground, const Request& request, const ProfileStage& profile,
                               const WorktreeStage& worktree);
Status judge_trust(TrustStage& trust, const Request& request, const WorktreeStage& worktree,
                   const BoundaryStage& boundary);
// Right before the spawn: identity, inventory, decision and its mode are what the launch was compiled with.
// Code workspace-trust-changed.
Status recheck_trust(const Ground& ground, const TrustStage& trust, const WorktreeStage& worktree);

// ---- hitchrail trust

struct TrustQuestion {
  std::vector<std::string> plugin_dirs, profile_dirs;
  std::string worktree = ".";
  std::string agent;  // "" = no harness in particular
  bool trust_owner = false;
};
struct TrustView {
  std::string root;   // of the worktree
  std::string agent;  // profile id, "" = none
  workspace::TrustIdentity identity;
  workspace::TrustInventory inventory;
  workspace::TrustStanding standing;
  std::vector<workspace::TrustDecision> decisions;  // of this identity, newest first
};
Result<TrustView> look_at_trust(const TrustQuestion& question);

struct TrustAnswer {
  workspace::TrustMode mode = workspace::TrustMode::trusted;
  std::string inventory_digest;       // needed for trusted and restricted: what was shown
  std::string reason;                 // up to 1000 bytes
  std::int64_t expires_after_ms = 0;  // 0 = never
};
// Looks again, compares, records.
Result<workspace::TrustDecision> decide_trust(const TrustQuestion& question, const TrustAnswer& answer);

// `hitchrail trust allow …` for a shell, whatever bytes the paths have. `question.agent` is a profile's id or
// "".
std::string allow_line(const TrustQuestion& question, const std::string& digest);

}  // namespace hitchrail::launch
