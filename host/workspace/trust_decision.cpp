#include "workspace/trust_decision.hpp"

#include <algorithm>

#include "core/ids.hpp"

namespace hitchrail::workspace {
namespace {

constexpr TrustMode kModes[] = {TrustMode::trusted, TrustMode::restricted, TrustMode::denied,
                                TrustMode::revoked};

bool holds(const std::vector<RestrictionCheck>& checks, std::string_view id) {
  return std::any_of(checks.begin(), checks.end(),
                     [&](const RestrictionCheck& check) { return check.id == id && check.holds; });
}

struct Loaded {
  std::size_t texts = 0, executables = 0;
};
Loaded count(const TrustInventory& inventory) {
  Loaded out;
  for (const TrustEntry& entry : inventory.entries) {
    if (entry.loaded && entry.effect == TrustPosture::executable) {
      ++out.executables;
    } else if (entry.loaded && entry.effect == TrustPosture::model_influencing) {
      ++out.texts;
    }
  }
  return out;
}

std::string files(std::size_t number) {
  return std::to_string(number) + (number == 1 ? " entry" : " entries");
}

TrustVerdict verdict(TrustOutcome outcome, std::string reason, bool decision_helps = false) {
  return TrustVerdict{outcome, false, decision_helps, std::move(reason)};
}

TrustVerdict restricted(const std::vector<RestrictionCheck>& checks, const std::string& why) {
  std::string missing;
  for (const RestrictionCheck& check : checks) {
    if (!check.holds) {
      missing += (missing.empty() ? "" : ", ") + check.id;
    }
  }
  if (!missing.empty()) {
    return verdict(TrustOutcome::untrusted, why + ", and this launch is not: " + missing + ".");
  }
  return verdict(TrustOutcome::restricted, why + ", and the boundary holds it to that.");
}

}  // namespace

std::string_view to_string(TrustMode mode) {
  switch (mode) {
    case TrustMode::trusted:
      return "trusted";
    case TrustMode::restricted:
      return "restricted";
    case TrustMode::denied:
      return "denied";
    case TrustMode::revoked:
      break;
  }
  return "revoked";
}

std::optional<TrustMode> trust_mode(std::string_view text) {
  for (const TrustMode mode : kModes) {
    if (to_string(mode) == text) {
      return mode;
    }
  }
  return std::nullopt;
}

std::string_view to_string(TrustOutcome outcome) {
  switch (outcome) {
    case TrustOutcome::not_required:
      return "not-required";
    case TrustOutcome::restricted:
      return "restricted";
    case TrustOutcome::trusted:
      return "trusted";
    case TrustOutcome::untrusted:
      break;
  }
  return "untrusted";
}

json::Value trust_decision_json(const TrustDecision& decision) {
  json::Value out = json::Value::object({{"schemaVersion", "workspace-execution-trust-decision/v1"}});
  out.set("id", decision.id);
  out.set("mode", to_string(decision.mode));
  out.set("identityDigest", decision.identity_digest);
  if (!decision.inventory_digest.empty()) {
    out.set("inventoryDigest", decision.inventory_digest);
  }
  if (!decision.agent.empty()) {
    out.set("agent", decision.agent);
  }
  out.set("actor", json::Value::object({{"uid", decision.uid}, {"user", decision.user}}));
  if (!decision.reason.empty()) {
    out.set("reason", decision.reason);
  }
  out.set("policyVersion", trust_policy_version);
  out.set("decidedAt", iso8601(decision.at_unix_ms));
  if (decision.expires_unix_ms != 0) {
    out.set("expiresAt", iso8601(decision.expires_unix_ms));
  }
  if (!decision.supersedes.empty()) {
    out.set("supersedesDecisionId", decision.supersedes);
  }
  return out;
}

TrustStanding trust_standing(const std::vector<TrustDecision>& decisions, const std::string& inventory_digest,
                             const std::string& agent, std::int64_t now_unix_ms) {
  TrustStanding out;
  for (const TrustDecision& decision : decisions) {
    const bool meant = decision.agent.empty() || decision.agent == agent;
    const bool expired = decision.expires_unix_ms != 0 && decision.expires_unix_ms <= now_unix_ms;
    if (!meant || expired) {
      continue;
    }
    if (decision.mode == TrustMode::revoked) {
      return out;
    }
    if (decision.mode == TrustMode::denied) {
      if (!out.other) {  // nothing newer
        out.current = decision;
      }
      return out;
    }
    if (decision.inventory_digest == inventory_digest) {
      out.current = decision;
      return out;
    }
    if (!out.other) {
      out.other = decision;
    }
  }
  return out;
}

bool wants_masks(const TrustInventory& inventory, const TrustStanding& standing) {
  return standing.current &&
         (standing.current->mode == TrustMode::restricted ||
          (standing.current->mode == TrustMode::trusted && inventory.maximum == MaximumTrust::restricted));
}

TrustVerdict judge_trust(const TrustInventory& inventory, const TrustStanding& standing,
                         const std::vector<RestrictionCheck>& checks) {
  const auto& current = standing.current;
  if (current && current->mode == TrustMode::denied) {
    return verdict(TrustOutcome::untrusted, "It was denied (" + current->id + ").");
  }
  if (inventory.maximum == MaximumTrust::denied) {
    return verdict(TrustOutcome::untrusted, "The repository's own " + std::string(policy_place) + " " +
                                                inventory.maximum_reason + ".");
  }
  const Loaded loaded = count(inventory);
  if (loaded.texts + loaded.executables == 0) {
    return verdict(TrustOutcome::not_required,
                   "Nothing in the repository is read by this harness on its own.");
  }
  if (!current && standing.other) {
    return verdict(TrustOutcome::untrusted,
                   "It has changed since it was decided on (" + standing.other->id + ").", true);
  }
  if (current) {
    if (wants_masks(inventory, standing)) {
      return restricted(checks, current->mode == TrustMode::restricted
                                    ? "It was restricted (" + current->id + ")"
                                    : "The repository's own policy says restricted");
    }
    return verdict(TrustOutcome::trusted, "It was allowed (" + current->id + ").");
  }
  if (loaded.executables != 0) {
    return verdict(TrustOutcome::untrusted,
                   files(loaded.executables) +
                       " would be read by this harness as configuration, or cannot be " +
                       "judged, and nobody has allowed it.",
                   true);
  }
  for (const char* needed :
       {"filesystem-enforced", "project-tool-servers-blocked", "project-executable-configuration-blocked"}) {
    if (!holds(checks, needed)) {
      return verdict(TrustOutcome::untrusted,
                     files(loaded.texts) + " would be read by this harness as instruction, outside of an " +
                         "enforced boundary (" + needed + "), and nobody has allowed it.",
                     true);
    }
  }
  TrustVerdict out = verdict(
      TrustOutcome::restricted,
      files(loaded.texts) + " would be read by this harness as instruction, in an " + "enforced boundary.");
  out.implicit = true;
  return out;
}

}  // namespace hitchrail::workspace
