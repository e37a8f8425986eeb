#pragma once
// Stage `phase`: which phase this launch is of, and what its parent left it. The phase narrows the preset
// before the boundary is compiled (what it does not allow is not granted: a read-only worktree, no way out
// but the gate to the provider's own hosts), and is judged when the boundary is known: what holds is what was
// proved, not what anybody says.
//
// A descendant (resume, or --parent) is in its parent's phase unless it names one, and never gets more than
// the parent had. Refuses: phase-unknown, phase-parent-unreadable, phase-evidence-invalid; blockers of the
// manifest: phase-required-authority-denied, -unsupported, -unenforceable, phase-plan-artifact-not-allowed,
// phase-plan-artifact-path-invalid.

#include <optional>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"
#include "boundary/preset.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "manifest/manifest.hpp"
#include "manifest/phase.hpp"
#include "profiles/profiles.hpp"

namespace hitchrail::launch {

struct Ground;
struct Request;

struct PhaseParent {
  std::string attempt_id, manifest_digest, evidence_digest;  // the last "" = it had no phase
  manifest::Authority authority;
};

struct PhaseStage {
  std::string phase;   // "" = none: the other policies decide alone
  std::string origin;  // run, task-envelope, parent
  std::optional<PhaseParent> parent;
  std::optional<std::string> plan_artifact;
  bool commit_required = false;  // the task will not do without a commit

  // Nothing of the worktree may be written, so nothing may be committed to it either.
  [[nodiscard]] bool read_only() const;

  // Set by narrow(): what the preset itself allows, before the phase.
  manifest::Authority preset_authority;
  std::vector<std::string> dropped;  // "relay 10.0.0.1:80", for the warning

  // Set by judge_phase():
  json::Value evidence;  // the manifest's `phase`: {evidence, sourceReferences}; null without a phase
  json::Value sources;   // what each of its sources said
  std::vector<manifest::Finding> blockers, warnings;
};
Result<PhaseStage> stage_phase(const Ground& ground, const Request& request);

// Takes out of preset and relays what the phase does not allow. Never adds anything.
void narrow(PhaseStage& phase, const profiles::SupportProfile& profile, boundary::Preset& preset,
            std::vector<std::string>& relays);
Status judge_phase(PhaseStage& phase, const profiles::SupportProfile& profile, const boundary::Preset& preset,
                   const boundary::Compiled& compiled, const std::vector<boundary::ProvenBackend>& proven);

}  // namespace hitchrail::launch
