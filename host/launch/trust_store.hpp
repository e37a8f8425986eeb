#pragma once
// Decisions on trust as the store has them, and what a profile says of a repository's files. Internal to
// launch/.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "profiles/profiles.hpp"
#include "store/state_home.hpp"
#include "workspace/trust_decision.hpp"

namespace hitchrail::launch {

workspace::TrustFiles trust_files(const profiles::SupportProfile& profile);
// Of one identity, newest first; none without a state directory (`home` null).
Result<std::vector<workspace::TrustDecision>> trust_decisions(const store::StateHome* home,
                                                              const std::string& identity_digest);

}  // namespace hitchrail::launch
