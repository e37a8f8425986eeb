#pragma once
// The run's budget: policies of the task file and of the command line, resolved to one, and what the host can
// hold of it today.
//
// resolve: disabled policies are dropped; per metric the smallest positive limit counts (zero and negative
// ones are recorded nowhere: they do not mean "none allowed"); the smallest soft threshold; the strictest
// hard action (downgrade, pause, require-approval, cancel); no limit left = the disabled default. evaluate at
// launch, with what a launch uses (one run of one harness): at a limit the hard action decides.
//
// Held today: runtimeSeconds (the run is stopped at the limit; never by `downgrade`, which stops nothing),
// fanOut and retries (the host starts one harness, once). Nobody counts the other metrics yet. A limit nobody
// can hold is a blocker; a policy that says `enforcement: advisory` makes it a warning. Limits are whole
// numbers, costUsd too.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

struct BudgetPolicy {
  bool enabled = true;
  bool required = true;  // enforcement: required | advisory
  std::vector<std::pair<std::string, std::int64_t>> limits;
  std::optional<std::int64_t> soft_percent;
  std::string hard_action;  // "" = not said
  std::string downgrade_model, name, notes;
};
// An object as a task file has it: {enabled?, enforcement?, name?, limits{}, softThresholdPercent?,
// hardAction?, downgradeModel?, notes?}. Code budget-invalid with the member.
Result<BudgetPolicy> budget_from_json(const json::Value& value);
// KEY=VALUE of the command line: a metric, or enforcement, softThresholdPercent, hardAction, downgradeModel.
Result<BudgetPolicy> budget_from_options(const std::vector<std::string>& options);

struct BudgetFinding {
  std::string code;  // budget-unenforceable, budget-exceeded, budget-near-limit
  std::string field, detail, remedy;
  bool blocks = false;
};
struct Budget {
  json::Value section;                // {enabled: false, scope: "run"} or the effective policy
  std::uint64_t runtime_seconds = 0;  // the limit that the host holds; 0 = none
  std::string model;                  // of a downgrade that applies at launch
  std::vector<BudgetFinding> findings;
};
Budget resolve_budget(const std::vector<BudgetPolicy>& policies);

}  // namespace hitchrail::manifest
