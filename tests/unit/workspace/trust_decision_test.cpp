// What follows from an inventory and from decisions: the table of docs/design/evidence.md, line by line.

#include <catch2/catch.hpp>

#include "workspace/trust_decision.hpp"

using namespace hitchrail;
using namespace hitchrail::workspace;

namespace {

TrustEntry entry(TrustPosture effect, bool loaded = true) {
  TrustEntry out;
  out.path = "x";
  out.posture = effect;
  out.effect = effect;
  out.loaded = loaded;
  return out;
}
TrustInventory inventory(std::vector<TrustEntry> entries, MaximumTrust maximum = MaximumTrust::trusted) {
  TrustInventory out;
  out.entries = std::move(entries);
  out.digest = "sha256:now";
  out.maximum = maximum;
  return out;
}
const TrustInventory nothing = inventory({});
const TrustInventory listed = inventory({entry(TrustPosture::executable, false)});
const TrustInventory text = inventory({entry(TrustPosture::model_influencing)});
const TrustInventory program =
    inventory({entry(TrustPosture::model_influencing), entry(TrustPosture::executable)});

std::vector<RestrictionCheck> checks(const std::vector<std::string>& failing = {}) {
  std::vector<RestrictionCheck> out;
  for (const char* id : {"filesystem-read-only", "filesystem-enforced", "network-disabled",
                         "task-credentials-blocked", "project-tool-servers-blocked",
                         "project-executable-configuration-blocked", "external-mutation-blocked"}) {
    out.push_back({id, std::find(failing.begin(), failing.end(), id) == failing.end(), ""});
  }
  return out;
}
const std::vector<RestrictionCheck> workspace_preset =
    checks({"filesystem-read-only", "network-disabled", "external-mutation-blocked"});

TrustDecision decision(TrustMode mode, const std::string& digest = "sha256:now",
                       const std::string& agent = "", std::int64_t expires = 0) {
  TrustDecision out;
  out.id = "decision_" + std::string(to_string(mode));
  out.mode = mode;
  out.inventory_digest = digest;
  out.agent = agent;
  out.expires_unix_ms = expires;
  return out;
}
TrustVerdict judged(const TrustInventory& what, const std::vector<TrustDecision>& newest_first,
                    const std::vector<RestrictionCheck>& with = workspace_preset,
                    const std::string& agent = "codex") {
  return judge_trust(what, trust_standing(newest_first, what.digest, agent, 1000), with);
}
TrustOutcome outcome(const TrustInventory& what, const std::vector<TrustDecision>& newest_first,
                     const std::vector<RestrictionCheck>& with = workspace_preset) {
  return judged(what, newest_first, with).outcome;
}

}  // namespace

TEST_CASE("nothing that this harness reads needs no decision, whatever else is listed") {
  CHECK(outcome(nothing, {}) == TrustOutcome::not_required);
  CHECK(outcome(listed, {}) == TrustOutcome::not_required);
  CHECK(outcome(inventory({entry(TrustPosture::declarative_only)}), {}) == TrustOutcome::not_required);
}

TEST_CASE("text for the model runs restricted in an enforced boundary without asking") {
  const TrustVerdict verdict = judged(text, {});
  CHECK(verdict.outcome == TrustOutcome::restricted);
  CHECK(verdict.implicit);
  CHECK_FALSE(verdict.requires_explicit_decision);
}

TEST_CASE("text outside of an enforced boundary needs a decision") {
  for (const char* missing :
       {"filesystem-enforced", "project-tool-servers-blocked", "project-executable-configuration-blocked"}) {
    const TrustVerdict verdict = judged(text, {}, checks({missing}));
    CHECK(verdict.outcome == TrustOutcome::untrusted);
    CHECK(verdict.requires_explicit_decision);
    CHECK(outcome(text, {decision(TrustMode::trusted)}, checks({missing})) == TrustOutcome::trusted);
  }
}

TEST_CASE("executable configuration needs a decision, in every boundary") {
  CHECK(outcome(program, {}, checks()) == TrustOutcome::untrusted);
  CHECK(judged(program, {}, checks()).requires_explicit_decision);
  CHECK(outcome(program, {decision(TrustMode::trusted)}) == TrustOutcome::trusted);
}

TEST_CASE("a restricted decision holds only where all seven checks do") {
  CHECK(outcome(program, {decision(TrustMode::restricted)}, checks()) == TrustOutcome::restricted);
  for (const auto& check : checks()) {
    const TrustVerdict verdict = judged(program, {decision(TrustMode::restricted)}, checks({check.id}));
    CHECK(verdict.outcome == TrustOutcome::untrusted);
    CHECK(verdict.reason.find(check.id) != std::string::npos);
    CHECK_FALSE(verdict.requires_explicit_decision);
  }
  CHECK(wants_masks(program, trust_standing({decision(TrustMode::restricted)}, "sha256:now", "codex", 1)));
  CHECK_FALSE(wants_masks(program, trust_standing({decision(TrustMode::trusted)}, "sha256:now", "codex", 1)));
}

TEST_CASE("a decision for another inventory is void, and says which it was") {
  const TrustVerdict verdict = judged(program, {decision(TrustMode::trusted, "sha256:then")});
  CHECK(verdict.outcome == TrustOutcome::untrusted);
  CHECK(verdict.reason.find("decision_trusted") != std::string::npos);
  CHECK(outcome(text, {decision(TrustMode::trusted, "sha256:then")}) == TrustOutcome::untrusted);
  CHECK(outcome(listed, {decision(TrustMode::trusted, "sha256:then")}) == TrustOutcome::not_required);
}

TEST_CASE("going back to what was decided on before needs no second decision") {
  CHECK(outcome(program, {decision(TrustMode::trusted, "sha256:other"), decision(TrustMode::trusted)}) ==
        TrustOutcome::trusted);
}

TEST_CASE("revoked voids every earlier decision, denied denies whatever the inventory") {
  CHECK(outcome(program, {decision(TrustMode::revoked, ""), decision(TrustMode::trusted)}) ==
        TrustOutcome::untrusted);
  CHECK(outcome(text, {decision(TrustMode::revoked, ""), decision(TrustMode::trusted, "sha256:then")}) ==
        TrustOutcome::restricted);
  CHECK(outcome(nothing, {decision(TrustMode::denied, "")}) == TrustOutcome::untrusted);
  CHECK(outcome(program, {decision(TrustMode::denied, ""), decision(TrustMode::trusted)}) ==
        TrustOutcome::untrusted);
  CHECK(outcome(program, {decision(TrustMode::trusted), decision(TrustMode::denied, "")}) ==
        TrustOutcome::trusted);
  // An allowance from before a denial does not come back when a newer one does not fit.
  CHECK(outcome(program, {decision(TrustMode::trusted, "sha256:other"), decision(TrustMode::denied, ""),
                          decision(TrustMode::trusted)}) == TrustOutcome::untrusted);
}

TEST_CASE("an expired decision counts for nothing, a denial that has expired too") {
  CHECK(outcome(program, {decision(TrustMode::trusted, "sha256:now", "", 1000)}) == TrustOutcome::untrusted);
  CHECK(outcome(program, {decision(TrustMode::trusted, "sha256:now", "", 1001)}) == TrustOutcome::trusted);
  CHECK(outcome(nothing, {decision(TrustMode::denied, "", "", 999)}) == TrustOutcome::not_required);
  CHECK(outcome(text, {decision(TrustMode::trusted, "sha256:then", "", 999)}) == TrustOutcome::restricted);
}

TEST_CASE("a decision for one agent is none for another") {
  CHECK(judged(program, {decision(TrustMode::trusted, "sha256:now", "claude")}).outcome ==
        TrustOutcome::untrusted);
  CHECK(judged(program, {decision(TrustMode::trusted, "sha256:now", "codex")}).outcome ==
        TrustOutcome::trusted);
  CHECK(judged(program, {decision(TrustMode::revoked, "", "claude"), decision(TrustMode::trusted)}).outcome ==
        TrustOutcome::trusted);
}

TEST_CASE("the repository's own policy only narrows") {
  const std::vector<TrustEntry> entries = program.entries;
  const auto capped = [&](MaximumTrust maximum) { return inventory(entries, maximum); };
  CHECK(outcome(capped(MaximumTrust::trusted), {}) == TrustOutcome::untrusted);
  CHECK(outcome(capped(MaximumTrust::denied), {decision(TrustMode::trusted)}, checks()) ==
        TrustOutcome::untrusted);
  CHECK(outcome(inventory({}, MaximumTrust::denied), {}) == TrustOutcome::untrusted);
  CHECK(outcome(capped(MaximumTrust::restricted), {decision(TrustMode::trusted)}) == TrustOutcome::untrusted);
  CHECK(outcome(capped(MaximumTrust::restricted), {decision(TrustMode::trusted)}, checks()) ==
        TrustOutcome::restricted);
  CHECK(outcome(inventory(text.entries, MaximumTrust::restricted), {}) == TrustOutcome::restricted);
}

TEST_CASE("a decision as a document names who, when, what for and what it replaces") {
  TrustDecision made = decision(TrustMode::trusted, "sha256:now", "codex", 86'400'000);
  made.identity_digest = "sha256:id";
  made.uid = 7;
  made.user = "ann";
  made.reason = "reviewed";
  made.supersedes = "decision_before";
  const json::Value document = trust_decision_json(made);
  CHECK(document.get("schemaVersion").as_string() == "workspace-execution-trust-decision/v1");
  CHECK(document.get("actor").get("uid").as_int() == 7);
  CHECK(document.get("expiresAt").as_string() == "1970-01-02T00:00:00.000Z");
  CHECK(document.get("supersedesDecisionId").as_string() == "decision_before");
  CHECK(document.get("policyVersion").as_int() == 1);
}
