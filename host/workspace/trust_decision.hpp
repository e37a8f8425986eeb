#pragma once
// Decisions on trust and what follows from them: pure functions, no file and no clock.
//
// A decision binds an identity and an inventory, and one agent where it names one. The newest `denied` of an
// identity denies whatever the inventory; a `revoked` one makes every earlier one void; an expired one counts
// for nothing. Nothing that a repository says can raise trust.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "workspace/trust_scan.hpp"

namespace hitchrail::workspace {

enum class TrustMode { trusted, restricted, denied, revoked };
std::string_view to_string(TrustMode mode);
std::optional<TrustMode> trust_mode(std::string_view text);

inline constexpr int trust_policy_version = 1;

struct TrustDecision {  // workspace-execution-trust-decision/v1
  std::string id;       // "decision_…"
  std::string identity_digest;
  std::string inventory_digest;  // "" for denied and revoked: whatever the inventory
  TrustMode mode = TrustMode::denied;
  std::string agent;  // profile id, "" = every agent
  std::uint32_t uid = 0;
  std::string user;
  std::string reason;
  std::int64_t at_unix_ms = 0;
  std::int64_t expires_unix_ms = 0;  // 0 = never
  std::string supersedes;            // id of the decision that held before, "" = none
  std::string workspace;             // path at that time, for people
};
json::Value trust_decision_json(const TrustDecision& decision);

// `decisions` of one identity, newest first.
struct TrustStanding {
  std::optional<TrustDecision> current;  // for this very inventory, or a denial
  std::optional<TrustDecision> other;    // the newest that stands for another inventory
};
TrustStanding trust_standing(const std::vector<TrustDecision>& decisions, const std::string& inventory_digest,
                             const std::string& agent, std::int64_t now_unix_ms);

// The seven checks of a restricted launch, the host's own word.
struct RestrictionCheck {
  std::string id;  // filesystem-read-only, filesystem-enforced, network-disabled, task-credentials-blocked,
                   // project-tool-servers-blocked, project-executable-configuration-blocked,
                   // external-mutation-blocked
  bool holds = false;
  std::string detail;
};

enum class TrustOutcome { not_required, restricted, trusted, untrusted };
std::string_view to_string(TrustOutcome outcome);

struct TrustVerdict {
  TrustOutcome outcome = TrustOutcome::untrusted;
  bool implicit = false;                    // restricted without a decision
  bool requires_explicit_decision = false;  // a decision would help
  std::string reason;                       // a sentence
};
// Before the boundary: whether a restricted launch is what was decided, so that the boundary must mask what
// the harness would load.
bool wants_masks(const TrustInventory& inventory, const TrustStanding& standing);
// Afterwards. `checks` as the compiled boundary has them.
TrustVerdict judge_trust(const TrustInventory& inventory, const TrustStanding& standing,
                         const std::vector<RestrictionCheck>& checks);

}  // namespace hitchrail::workspace
