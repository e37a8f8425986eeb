#include "attempt/completion_check.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace hitchrail::attempt {
namespace {

Error invalid(std::string member, std::string detail) {
  return Error{ErrorClass::internal, "completion-invalid", "check completion result",
               std::move(member),    std::move(detail),    ""};
}

bool required(const json::Value& item) {
  return item.find("required") == nullptr || item.get("required").as_bool();
}

Status check_lists(const json::Value& completion) {
  constexpr std::array<std::pair<const char*, std::size_t>, 6> bounds{{{"blockers", 64},
                                                                       {"evidence", 512},
                                                                       {"changedFiles", 2000},
                                                                       {"artifacts", 256},
                                                                       {"verification", 256},
                                                                       {"sideEffects", 256}}};
  for (const auto& [name, limit] : bounds) {
    const json::Value* list = completion.find(name);
    if (list != nullptr && (!list->is_array() || list->items().size() > limit)) {
      return invalid(name, "not a list of at most " + std::to_string(limit));
    }
  }
  std::set<std::string> ids;
  for (const json::Value& item : completion.get("evidence").items()) {
    const std::string& id = item.get("id").as_string();
    const std::string& kind = item.get("kind").as_string();
    const bool provider = item.get("source").as_string() == "provider";
    if (id.empty() || !(ids.insert(id).second || provider)) {
      return invalid("evidence.id", "\"" + id + "\" is empty or stands there twice");
    }
    if (std::find(evidence_kinds.begin(), evidence_kinds.end(), kind) == evidence_kinds.end()) {
      return invalid("evidence.kind", "\"" + kind + "\" is not known");
    }
    if (provider && (item.get("verified").as_bool() || !id.starts_with("provider-"))) {
      return invalid("evidence." + id, "what a provider says is verified, or not named as its own");
    }
  }
  for (const json::Value& item : completion.get("artifacts").items()) {
    if (item.get("verified").as_bool() &&
        (item.get("kind").as_string() != "file" || item.get("sha256").as_string().size() != 64)) {
      return invalid("artifacts." + item.get("id").as_string(), "verified, and no file with its SHA-256");
    }
  }
  return {};
}

Status check_status(const json::Value& completion) {
  const std::string& status = completion.get("status").as_string();
  const bool blockers = !completion.get("blockers").items().empty();
  if (status == "failed") {
    return completion.get("error").is_string() ? Status{} : invalid("error", "a failed run says why");
  }
  if (status == "blocked" || status == "partial") {
    return blockers || status == "partial" ? Status{} : invalid("blockers", "a blocked run says by what");
  }
  if (status == "interrupted") {
    return {};
  }
  if (status != "success") {
    return invalid("status", "\"" + status + "\" is not known");
  }
  if (blockers || !completion.get("error").is_null()) {
    return invalid("blockers", "a success has neither blockers nor an error");
  }
  const auto& evidence = completion.get("evidence").items();
  if (std::none_of(evidence.begin(), evidence.end(),
                   [](const json::Value& item) { return item.get("verified").as_bool(); })) {
    return invalid("evidence", "a success has verified evidence");
  }
  for (const json::Value& item : completion.get("verification").items()) {
    if (required(item) && item.get("status").as_string() != "passed") {
      return invalid("verification." + item.get("gateId").as_string(),
                     "a success has no required check that has not passed");
    }
  }
  return {};
}

bool meets(const json::Value& item, const json::Value& requirement) {
  const auto& ids = item.get("requirementIds").items();
  return item.get("verified").as_bool() && item.get("kind") == requirement.get("kind") &&
         std::any_of(ids.begin(), ids.end(),
                     [&](const json::Value& id) { return id == requirement.get("id"); });
}

Status check_envelope(const json::Value& completion, const json::Value& envelope) {
  if (envelope.find("digest") != nullptr && completion.find("taskEnvelopeDigest") != nullptr &&
      !(completion.get("taskEnvelopeDigest") == envelope.get("digest"))) {
    return invalid("taskEnvelopeDigest", "the result is of another task envelope");
  }
  if (completion.get("status").as_string() != "success") {
    return {};
  }
  const auto& evidence = completion.get("evidence").items();
  for (const json::Value& requirement :
       envelope.get("completionContract").get("evidenceRequirements").items()) {
    if (required(requirement) && std::none_of(evidence.begin(), evidence.end(), [&](const json::Value& item) {
          return meets(item, requirement);
        })) {
      return invalid("evidence", "nothing verified meets " + requirement.get("id").as_string());
    }
  }
  const auto& results = completion.get("verification").items();
  for (const json::Value& gate : envelope.get("verificationGates").items()) {
    const auto result = std::find_if(results.begin(), results.end(), [&](const json::Value& item) {
      return item.get("gateId") == gate.get("id") && item.get("status").as_string() == "passed";
    });
    if (!required(gate)) {
      continue;
    }
    const auto proves = [&](const json::Value& id) {
      return std::any_of(evidence.begin(), evidence.end(), [&](const json::Value& item) {
        return item.get("id") == id && item.get("verified").as_bool();
      });
    };
    if (result == results.end()) {
      return invalid("verification", "a required gate has not passed: " + gate.get("id").as_string());
    }
    const auto& ids = result->get("evidenceIds").items();
    if (gate.get("evidenceRequired").as_bool() && std::none_of(ids.begin(), ids.end(), proves)) {
      return invalid("verification", "a gate has no verified evidence: " + gate.get("id").as_string());
    }
  }
  return {};
}

}  // namespace

Status check_completion(const json::Value& completion, const json::Value& envelope) {
  if (completion.get("schemaVersion").as_string() != "completion-result/v1") {
    return invalid("schemaVersion", "not a completion-result/v1");
  }
  HR_CHECK(check_lists(completion));
  HR_CHECK(check_status(completion));
  return envelope.is_object() ? check_envelope(completion, envelope) : Status{};
}

}  // namespace hitchrail::attempt
