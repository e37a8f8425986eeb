#pragma once
// The readiness gate: is the task said well enough to be worth a run. Which checks must pass comes from the
// task file (readiness.required); the rest only warn. An operator may override the gate with a reason of at
// least 8 characters; of it only the digest is kept, anywhere. Nothing but this gate is touched by it.

#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

struct ReadinessCheck {
  std::string id;
  bool passed = false;
  std::string detail;  // what is missing
};
struct ReadinessInput {
  std::string message;
  std::size_t acceptance_criteria = 0, verification_gates = 0, expected_outputs = 0;
  bool clean_worktree = true;
  std::vector<std::string> required;  // ids of readiness_checks()
  std::string override_reason;        // "" = none
};
struct Readiness {
  json::Value section;  // ready, overridden, passed, total, missingRequired, warnings, overrideReasonDigest?
  bool blocked = false;
  std::string detail;  // of a blocked one: what is missing
};

// objective, acceptance-criteria, verification-gates, expected-outputs, clean-worktree
const std::vector<std::string>& readiness_ids();
// Code readiness-check-unknown for a required id that does not exist.
Result<Readiness> judge_readiness(const ReadinessInput& input);
// Early, before anything is looked at: override-reason-short.
Status check_override_reason(std::string_view reason);

}  // namespace hitchrail::manifest
