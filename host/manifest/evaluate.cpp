// Requirements against exactly one runtime manifest, and the choice among several.

#include <algorithm>
#include <map>
#include <tuple>

#include "core/text.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

std::string remedy_of(const Requirement& requirement) {
  switch (requirement.state) {
    case CapabilityState::advisory:
      return "use a provider that has it for certain, or a sandbox preset that is advisory";
    case CapabilityState::unsupported:
      return "use an agent that has it, or a launch that does not need it";
    case CapabilityState::supported:
    case CapabilityState::unknown:
      break;
  }
  return "hitchrail doctor says what the probe saw; hitchrail cache clear has it probed again";
}

int probe_rank(const json::Value& manifest) {
  const std::string& state = manifest.get("probe").get("state").as_string();
  return state == "ready" ? 0 : state == "degraded" ? 1 : 2;
}

void judge_identity(const json::Value& manifest, const Wanted& wanted, Candidate& candidate) {
  const std::string& provider = manifest.get("provider").as_string();
  if (!wanted.provider.empty() && lower(wanted.provider) != lower(provider) &&
      lower(wanted.provider) != lower(manifest.get("adapter").as_string())) {
    candidate.reasons.push_back({"provider-mismatch", "providerRuntime.provider",
                                 "this is " + provider + ", and " + wanted.provider + " was asked for",
                                 "name the agent of that provider"});
  }
  const auto& models = manifest.get("models").items();
  if (wanted.model.empty()) {
    return;
  }
  if (models.empty()) {
    candidate.warnings.push_back({"provider-model-unknown", "providerRuntime.models",
                                  "the provider does not say which models it has", ""});
    return;
  }
  const bool listed = std::any_of(models.begin(), models.end(), [&](const json::Value& model) {
    return lower(model.as_string()) == lower(wanted.model);
  });
  if (!listed) {
    candidate.reasons.push_back({"provider-model-unavailable", "runtime.model",
                                 "the provider does not have the model " + escape_visible(wanted.model),
                                 "leave --model out, or name one of its models"});
  }
}

Candidate judge(const json::Value& manifest, const Wanted& wanted, std::size_t index) {
  Candidate candidate;
  candidate.index = index;
  const std::string& state = manifest.get("probe").get("state").as_string();
  if (check_runtime_manifest(manifest).has_error()) {
    candidate.reasons.push_back({"provider-probe-failed", "providerRuntime",
                                 "the runtime manifest is not valid", "hitchrail cache clear"});
  } else if (state == "failed") {
    const auto& diagnostics = manifest.get("probe").get("diagnostics").items();
    candidate.reasons.push_back(
        {"provider-probe-failed", "providerRuntime",
         diagnostics.empty() ? "the provider could not be probed" : diagnostics.front().as_string(),
         "hitchrail doctor says what the probe saw"});
  } else if (state == "degraded") {
    const auto& diagnostics = manifest.get("probe").get("diagnostics").items();
    candidate.warnings.push_back(
        {"provider-probe-degraded", "providerRuntime",
         diagnostics.empty() ? "the probe saw less than it should" : diagnostics.front().as_string(), ""});
  }
  judge_identity(manifest, wanted, candidate);
  candidate.requirements = evaluate_requirements(manifest, wanted.capabilities, wanted.required_preset);
  for (const Requirement& requirement : candidate.requirements) {
    if (requirement.verdict == Verdict::refused) {
      candidate.reasons.push_back(
          {"provider-capability-unavailable", "providerRequirements." + requirement.id,
           requirement.id + " is " + std::string(to_string(requirement.state)) + ": " + requirement.reason,
           requirement.remedy});
    } else if (requirement.verdict == Verdict::advisory) {
      candidate.warnings.push_back({"provider-capability-advisory", "providerRequirements." + requirement.id,
                                    requirement.id + ": " + requirement.reason, ""});
    }
  }
  candidate.compatible = candidate.reasons.empty();
  candidate.advisory = !candidate.warnings.empty();
  return candidate;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::satisfied:
      return "satisfied";
    case Verdict::advisory:
      return "advisory";
    case Verdict::refused:
      break;
  }
  return "refused";
}

std::vector<Requirement> evaluate_requirements(const json::Value& runtime_manifest,
                                               std::vector<std::string> ids, bool required_preset) {
  std::map<std::string_view, const json::Value*> known;
  for (const json::Value& item : runtime_manifest.get("capabilities").items()) {
    known.emplace(item.get("id").as_string(), &item);
  }
  std::vector<Requirement> out;
  for (std::string& id : as_set(std::move(ids))) {
    Requirement requirement;
    requirement.id = std::move(id);
    requirement.reason = "the manifest does not name it";
    if (const auto found = known.find(requirement.id); found != known.end()) {
      requirement.state =
          capability_state(found->second->get("state").as_string()).value_or(CapabilityState::unknown);
      requirement.reason = found->second->get("reason").as_string();
    }
    requirement.advisory = requirement.state == CapabilityState::advisory;
    requirement.satisfied =
        requirement.state == CapabilityState::supported || (requirement.advisory && !required_preset);
    requirement.verdict = !requirement.satisfied ? Verdict::refused
                          : requirement.advisory ? Verdict::advisory
                                                 : Verdict::satisfied;
    if (requirement.verdict == Verdict::refused) {
      requirement.remedy = remedy_of(requirement);
    }
    out.push_back(std::move(requirement));
  }
  return out;
}

std::vector<Candidate> select_runtime_manifest(std::span<const json::Value> manifests, const Wanted& wanted) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < manifests.size(); ++i) {
    out.push_back(judge(manifests[i], wanted, i));
  }
  const auto order = [&](const Candidate& candidate) {
    const json::Value& manifest = manifests[candidate.index];
    return std::tuple(!candidate.compatible, candidate.advisory, probe_rank(manifest),
                      manifest.get("provider").as_string(), manifest.get("digest").as_string());
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
  return out;
}

std::vector<std::string> launch_requirements(const LaunchNeeds& needs) {
  std::vector<std::string> out = {"run.start", "run.status", "run.logs", "run.complete",
                                  "workspace.worktrees"};
  const auto add = [&](bool wanted, std::initializer_list<const char*> ids) {
    if (wanted) {
      out.insert(out.end(), ids.begin(), ids.end());
    }
  };
  add(needs.resume, {"run.resume", "run.follow-up"});
  add(needs.fork, {"run.fork", "run.follow-up"});
  add(needs.tools || needs.mcp, {"tool.calls"});
  add(needs.mcp, {"tool.mcp"});
  // What is only recorded needs nobody who counts it.
  if (needs.budget.get("enabled").as_bool() && needs.budget.get("enforcement").as_string() != "advisory") {
    const json::Value& limits =
        needs.budget.find("limits") != nullptr ? needs.budget.get("limits") : needs.budget;
    const auto limited = [&](const char* name) { return !limits.get(name).is_null(); };
    add(limited("inputTokens") || limited("outputTokens") || limited("totalTokens") || limited("costUsd") ||
            limited("costMicroUsd"),
        {"usage.tokens"});
    add(limited("toolCalls"), {"tool.calls"});
  }
  out.insert(out.end(), needs.extra.begin(), needs.extra.end());
  return as_set(std::move(out));
}

std::vector<std::string> launch_requirements(bool resume) {
  LaunchNeeds needs;
  needs.resume = resume;
  return launch_requirements(needs);
}

}  // namespace hitchrail::manifest
