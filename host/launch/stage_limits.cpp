// Stage `limits`: the budget of task file and command line, and what follows from it. Looks at nothing.

#include <algorithm>

#include "launch/stages.hpp"
#include "manifest/readiness.hpp"

namespace hitchrail::launch {

Result<LimitsStage> stage_limits(const Request& request) {
  if (!request.override_reason.empty()) {
    HR_CHECK(manifest::check_override_reason(request.override_reason));
  }
  std::vector<manifest::BudgetPolicy> policies;
  if (!request.task.budget.is_null()) {
    HR_TRY(policy, manifest::budget_from_json(request.task.budget));
    policies.push_back(std::move(policy));
  }
  if (!request.budget.empty()) {
    HR_TRY(policy, manifest::budget_from_options(request.budget));
    policies.push_back(std::move(policy));
  }
  LimitsStage stage;
  stage.budget = manifest::resolve_budget(policies);
  stage.time_limit_s = request.time_limit_s;
  if (stage.budget.runtime_seconds != 0) {
    stage.time_limit_s = stage.time_limit_s == 0 ? stage.budget.runtime_seconds
                                                 : std::min(stage.time_limit_s, stage.budget.runtime_seconds);
  }
  stage.model = stage.budget.model.empty() ? request.model : stage.budget.model;
  return stage;
}

}  // namespace hitchrail::launch
