#include "manifest/readiness.hpp"

#include <algorithm>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::size_t kMinReason = 8;

std::string trimmed(std::string_view text) {
  const std::vector<std::string> one = as_set({std::string(text)});
  return one.empty() ? std::string() : one.front();
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::vector<ReadinessCheck> checks_of(const ReadinessInput& input) {
  return {{"objective", !trimmed(input.message).empty(), "the task says nothing"},
          {"acceptance-criteria", input.acceptance_criteria != 0, "no acceptance criterion is given"},
          {"verification-gates", input.verification_gates != 0, "no verification gate is given"},
          {"expected-outputs", input.expected_outputs != 0, "no expected output is named"},
          {"clean-worktree", input.clean_worktree, "the work tree has changes that are not committed"}};
}

}  // namespace

const std::vector<std::string>& readiness_ids() {
  static const std::vector<std::string> ids = {"objective", "acceptance-criteria", "verification-gates",
                                               "expected-outputs", "clean-worktree"};
  return ids;
}

Status check_override_reason(std::string_view reason) {
  const std::string text = trimmed(reason);
  if (!is_valid_utf8(text) || code_points(text) < kMinReason) {
    return Error{ErrorClass::usage,
                 "override-reason-short",
                 "override the readiness gate",
                 "--override-readiness",
                 "a reason of at least 8 characters is needed",
                 "say why the run shall start although the task is not ready"};
  }
  return {};
}

Result<Readiness> judge_readiness(const ReadinessInput& input) {
  const std::vector<std::string> required = as_set(input.required);
  for (const std::string& id : required) {
    if (!contains(readiness_ids(), id)) {
      return Error{ErrorClass::usage,
                   "readiness-check-unknown",
                   "judge the readiness",
                   id,
                   "there is no such readiness check",
                   "one of: objective, acceptance-criteria, verification-gates, expected-outputs, "
                   "clean-worktree"};
    }
  }
  std::vector<std::string> missing, warnings;
  std::int64_t passed = 0;
  Readiness out;
  const std::vector<ReadinessCheck> checks = checks_of(input);
  for (const ReadinessCheck& check : checks) {
    if (check.passed) {
      ++passed;
    } else if (contains(required, check.id)) {
      missing.push_back(check.id);
      out.detail += (out.detail.empty() ? "" : "; ") + check.id + ": " + check.detail;
    } else {
      warnings.push_back(check.id);
    }
  }
  const bool ready = missing.empty();
  if (!input.override_reason.empty()) {
    HR_CHECK(check_override_reason(input.override_reason));
  }
  const bool overridden = !ready && !input.override_reason.empty();
  out.blocked = !ready && !overridden;
  out.section = json::Value::object({{"ready", ready},
                                     {"overridden", overridden},
                                     {"passed", passed},
                                     {"total", static_cast<std::int64_t>(checks.size())},
                                     {"missingRequired", string_array(as_set(missing))},
                                     {"warnings", string_array(as_set(warnings))}});
  if (overridden) {
    out.section.set("overrideReasonDigest", sha256_prefixed(trimmed(input.override_reason)));
  }
  return out;
}

}  // namespace hitchrail::manifest
