#include "manifest/budget.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "manifest/fields.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::int64_t kMaxLimit = std::int64_t{1} << 53;
constexpr std::int64_t kDefaultSoft = 80;
constexpr std::array<std::string_view, 9> kMetrics = {"inputTokens",    "outputTokens",       "totalTokens",
                                                      "costUsd",        "toolCalls",          "retries",
                                                      "runtimeSeconds", "idleRuntimeSeconds", "fanOut"};
// By rank: the later one is the stricter.
constexpr std::array<std::string_view, 4> kActions = {"downgrade", "pause", "require-approval", "cancel"};

bool is_metric(std::string_view name) {
  return std::find(kMetrics.begin(), kMetrics.end(), name) != kMetrics.end();
}
std::size_t rank(std::string_view action) {
  return static_cast<std::size_t>(std::find(kActions.begin(), kActions.end(), action) - kActions.begin());
}

Error invalid(std::string member, std::string detail) {
  return Error{
      ErrorClass::usage,
      "budget-invalid",
      "read the budget",
      std::move(member),
      std::move(detail),
      "metrics are inputTokens, outputTokens, totalTokens, costUsd, toolCalls, retries, runtimeSeconds, "
      "idleRuntimeSeconds and fanOut, each a whole number"};
}

Status take_soft(BudgetPolicy& policy, std::int64_t percent) {
  if (percent < 1 || percent > 99) {
    return invalid("softThresholdPercent", "a whole number from 1 to 99 is needed");
  }
  policy.soft_percent = percent;
  return {};
}

Status take_word(BudgetPolicy& policy, const std::string& key, const std::string& word) {
  if (key == "hardAction") {
    if (rank(word) == kActions.size()) {
      return invalid(key, "one of downgrade, pause, require-approval, cancel is needed");
    }
    policy.hard_action = word;
  } else if (key == "enforcement") {
    if (word != "required" && word != "advisory") {
      return invalid(key, "required or advisory is needed");
    }
    policy.required = word == "required";
  } else if (word.empty() || word.size() > (key == "notes" ? 1000U : 120U)) {
    return invalid(key, "the text is empty or too long");
  } else {
    (key == "downgradeModel" ? policy.downgrade_model : key == "name" ? policy.name : policy.notes) = word;
  }
  return {};
}

bool is_word_key(std::string_view key) {
  return key == "hardAction" || key == "enforcement" || key == "downgradeModel" || key == "name" ||
         key == "notes";
}

Result<std::int64_t> whole_number(const std::string& member, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMaxLimit || value < -kMaxLimit) {
    return invalid(member, "a whole number is needed");
  }
  return value;
}

Status take_limits(BudgetPolicy& policy, const json::Value& limits) {
  if (!limits.is_object()) {
    return invalid("limits", "an object of metrics and numbers is needed");
  }
  for (const auto& [metric, limit] : limits.members()) {
    const auto number = limit.as_int();
    if (!is_metric(metric) || !number || *number > kMaxLimit || *number < -kMaxLimit) {
      return invalid("limits." + metric, is_metric(metric) ? "a whole number is needed" : "no such metric");
    }
    policy.limits.emplace_back(metric, *number);
  }
  return {};
}

// The effective policy: what is left of all of them.
struct Effective {
  std::map<std::string, std::int64_t> limits;
  std::int64_t soft = kDefaultSoft;
  std::string action, model, name, notes;
  bool required = false;
};

Effective merge(const std::vector<BudgetPolicy>& policies) {
  Effective out;
  std::optional<std::int64_t> soft;
  for (const BudgetPolicy& policy : policies) {
    bool limits = false;
    for (const auto& [metric, limit] : policy.limits) {
      if (policy.enabled && limit > 0) {
        limits = true;
        const auto [at, fresh] = out.limits.emplace(metric, limit);
        at->second = fresh ? limit : std::min(at->second, limit);
      }
    }
    if (!policy.enabled) {
      continue;
    }
    out.required = out.required || (limits && policy.required);
    if (policy.soft_percent) {
      soft = soft ? std::min(*soft, *policy.soft_percent) : *policy.soft_percent;
    }
    if (!policy.hard_action.empty() && (out.action.empty() || rank(policy.hard_action) > rank(out.action))) {
      out.action = policy.hard_action;
    }
    out.model = policy.downgrade_model.empty() ? out.model : policy.downgrade_model;
    out.name = policy.name.empty() ? out.name : policy.name;
    out.notes = policy.notes.empty() ? out.notes : policy.notes;
  }
  out.soft = soft.value_or(kDefaultSoft);
  out.action = out.action.empty() ? "require-approval" : out.action;
  return out;
}

bool held(const std::string& metric, const std::string& action) {
  return metric == "fanOut" || metric == "retries" || (metric == "runtimeSeconds" && action != "downgrade");
}

std::string text_of(std::int64_t number) {
  return std::to_string(number);
}

}  // namespace

Result<BudgetPolicy> budget_from_json(const json::Value& value) {
  BudgetPolicy policy;
  if (!value.is_object()) {
    return invalid("budget", "an object is needed");
  }
  for (const auto& [key, member] : value.members()) {
    if (key == "limits") {
      HR_CHECK(take_limits(policy, member));
    } else if (key == "enabled" && member.is_bool()) {
      policy.enabled = member.as_bool();
    } else if (key == "softThresholdPercent" && member.as_int()) {
      HR_CHECK(take_soft(policy, *member.as_int()));
    } else if (is_word_key(key) && member.is_string()) {
      HR_CHECK(take_word(policy, key, member.as_string()));
    } else {
      return invalid(key, "the member is unknown or of the wrong type");
    }
  }
  return policy;
}

Result<BudgetPolicy> budget_from_options(const std::vector<std::string>& options) {
  BudgetPolicy policy;
  std::vector<std::string> seen;
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (equals == std::string::npos || value.empty()) {
      return invalid(key, "--budget is KEY=VALUE");
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return invalid(key, "it is given twice");
    }
    seen.push_back(key);
    if (is_metric(key)) {
      HR_TRY(limit, whole_number(key, value));
      policy.limits.emplace_back(key, limit);
    } else if (key == "softThresholdPercent") {
      HR_TRY(percent, whole_number(key, value));
      HR_CHECK(take_soft(policy, percent));
    } else if (is_word_key(key)) {
      HR_CHECK(take_word(policy, key, value));
    } else {
      return invalid(key, "there is no such member");
    }
  }
  return policy;
}

Budget resolve_budget(const std::vector<BudgetPolicy>& policies) {
  const Effective effective = merge(policies);
  Budget out;
  out.section = json::Value::object({{"enabled", !effective.limits.empty()}, {"scope", "run"}});
  if (effective.limits.empty()) {
    return out;
  }
  json::Value limits = json::Value::object();
  std::vector<std::string> unheld;
  bool hard = false;
  bool warn = false;
  for (const auto& [metric, limit] : effective.limits) {
    limits.set(metric, limit);
    const std::string field = "budget.limits." + metric;
    if (!held(metric, effective.action)) {
      unheld.push_back(metric);
      out.findings.push_back({"budget-unenforceable", field,
                              "nobody can hold the limit " + metric + " = " + text_of(limit) +
                                  (metric == "runtimeSeconds" ? " by a downgrade" : " yet"),
                              "leave it out, or say enforcement: advisory to have it recorded only",
                              effective.required});
    } else if (metric == "runtimeSeconds") {
      out.runtime_seconds = static_cast<std::uint64_t>(limit);
    }
    const std::int64_t used = metric == "fanOut" ? 1 : 0;
    if (used >= limit) {
      hard = true;
      // A downgrade changes the model and lets the run go on.
      out.findings.push_back({"budget-exceeded", field,
                              "the launch itself uses " + text_of(used) + " of " + text_of(limit) +
                                  ", and at a limit comes " + effective.action,
                              "allow at least one more",
                              effective.action != "downgrade" || effective.model.empty()});
      out.model = effective.action == "downgrade" ? effective.model : "";
    } else if (used * 100 >= limit * effective.soft && used > 0) {
      warn = true;
      out.findings.push_back({"budget-near-limit", field,
                              "the launch itself uses " + text_of(used) + " of " + text_of(limit), "",
                              false});
    }
  }
  out.section.set("limits", std::move(limits));
  out.section.set("softThresholdPercent", effective.soft);
  out.section.set("hardAction", effective.action);
  out.section.set("enforcement", effective.required ? "required" : "advisory");
  out.section.set("unenforceable", string_array(unheld));
  out.section.set("decision", hard ? effective.action : warn ? "warn" : "allow");
  for (const auto& [key, text] : {std::pair{"downgradeModel", effective.model},
                                  std::pair{"name", effective.name}, std::pair{"notes", effective.notes}}) {
    if (!text.empty()) {
      out.section.set(key, text);
    }
  }
  return out;
}

}  // namespace hitchrail::manifest
