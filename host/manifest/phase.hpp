#pragma once
// Phase authority: what a launch of one phase (explore, plan, implement, verify, publish) may do, as the
// intersection of the phase's profile and five sources, dimension by dimension; phase-capability-evidence/v1.
//
// Promises: authority is only ever intersected, never widened, by exact strings ("*" = this source does not
// narrow); what a source does not hold (unenforceable, unsupported) counts as nothing, and blocks where the
// phase requires that dimension; the same input gives the same bytes. Pure: who asks says what each source
// allows and holds. Refuses: phase-unknown. Blockers are data: required-authority-denied,
// required-authority-unsupported, required-authority-unenforceable, plan-artifact-not-allowed,
// plan-artifact-path-invalid.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {

enum class Dimension {
  filesystem_read,
  filesystem_write,
  command_execute,
  network_egress,
  credential_access,
  external_action,
  plan_artifact_write,
};
inline constexpr std::size_t dimension_count = 7;
std::string_view to_string(Dimension dimension);

// {"*"} = not narrowed; {} = nothing. Sorted, unique.
using Scopes = std::vector<std::string>;
inline const Scopes everything{"*"};
Scopes intersect(const Scopes& a, const Scopes& b);

enum class Holding { enforced, unenforceable, unsupported };

struct Authority {
  std::array<Scopes, dimension_count> scopes;
  Scopes& operator[](Dimension d) { return scopes[static_cast<std::size_t>(d)]; }
  const Scopes& operator[](Dimension d) const { return scopes[static_cast<std::size_t>(d)]; }
};

struct PhaseProfile {
  std::string_view phase, id;
  Authority authority;
  std::vector<Dimension> required;  // must be held, and not come to nothing where something is asked for
  std::vector<Dimension> approval;  // growth of these needs somebody's word
};
// nullptr: no such phase.
const PhaseProfile* phase_profile(std::string_view phase);

struct PhaseSource {
  std::string id;            // "preset:workspace"
  std::string kind;          // parent, agent-profile, sandbox, tool-catalog, launch-policy
  std::string origin_scope;  // of origins[]
  Authority authority;       // starts as "*" everywhere
  std::array<Holding, dimension_count> holding{};
  // Of the source itself; "" = digest of what it says.
  std::string digest;
  std::string parent_attempt_id, parent_manifest_digest, parent_evidence_digest;  // kind parent only
  PhaseSource();
};

struct PhaseInput {
  std::string phase;
  std::vector<PhaseSource> sources;  // one of each kind, in the order above
  std::optional<std::string> plan_artifact;
};
struct PhaseOutcome {
  Authority effective;
  json::Value section;            // {evidence, sourceReferences}: the manifest's `phase`
  json::Value sources;            // what each source said: the digests of sourceReferences are of these
  std::vector<Finding> blockers;  // codes begin with "phase-"
  std::vector<Finding> warnings;
};
Result<PhaseOutcome> compile_phase(const PhaseInput& input);

// The effective authority of a parent's evidence, digest and shape checked. Code phase-evidence-invalid.
Result<Authority> phase_authority(const json::Value& evidence);
// Of a launch manifest's `phase` that was read back: the evidence's digest, five references, one a kind,
// parent links where they belong and nowhere else.
Status check_phase(const json::Value& section);

}  // namespace hitchrail::manifest
