#include "manifest/phase.hpp"

#include <catch2/catch.hpp>

#include "core/canonical.hpp"

using namespace hitchrail;
using namespace hitchrail::manifest;

namespace {

using D = Dimension;
using Words = std::vector<std::string>;

// Five sources that allow and hold everything.
PhaseInput input(const char* phase) {
  PhaseInput out;
  out.phase = phase;
  for (const char* kind : {"parent", "agent-profile", "sandbox", "tool-catalog", "launch-policy"}) {
    PhaseSource source;
    source.id = std::string("test:") + kind;
    source.kind = kind;
    source.origin_scope = "run";
    out.sources.push_back(source);
  }
  return out;
}

PhaseSource& sandbox(PhaseInput& of) {
  return of.sources[2];
}

void holding(PhaseSource& source, Dimension dimension, Holding value) {
  source.holding[static_cast<std::size_t>(dimension)] = value;
}

PhaseOutcome compiled(const PhaseInput& of) {
  auto outcome = compile_phase(of);
  REQUIRE(outcome.has_value());
  return std::move(outcome).value();
}

Words codes(const std::vector<Finding>& findings) {
  Words out;
  for (const Finding& finding : findings) {
    out.push_back(finding.code + " " + finding.field);
  }
  return out;
}

std::string status(const PhaseOutcome& outcome) {
  return outcome.section.get("evidence").get("status").as_string();
}

}  // namespace

TEST_CASE("with sources that allow everything a phase has exactly its profile's authority") {
  for (const char* phase : {"explore", "plan", "implement", "verify", "publish"}) {
    INFO(phase);
    const PhaseOutcome outcome = compiled(input(phase));
    CHECK(outcome.blockers.empty());
    CHECK(status(outcome) == "allowed");
    const bool writes = std::string_view(phase) != "explore" && std::string_view(phase) != "plan";
    CHECK(outcome.effective[D::filesystem_read] == Scopes{"<workspace>"});
    CHECK(outcome.effective[D::filesystem_write] == (writes ? Scopes{"<workspace>"} : Scopes{}));
    CHECK(outcome.effective[D::network_egress] == (writes ? everything : Scopes{}));
  }
}

TEST_CASE("authority is intersected by exact strings and never widened") {
  CHECK(intersect({"*"}, {"b", "a"}) == Scopes{"a", "b"});
  CHECK(intersect({"a", "b"}, {"b", "c"}) == Scopes{"b"});
  CHECK(intersect({"a/b"}, {"a"}).empty());
  CHECK(intersect({"*"}, {"*"}) == everything);
  PhaseInput of = input("implement");
  sandbox(of).authority[D::network_egress] = {"api.example.org", "b.example.org"};
  of.sources[0].authority[D::network_egress] = {"b.example.org", "c.example.org"};
  const PhaseOutcome outcome = compiled(of);
  CHECK(outcome.effective[D::network_egress] == Scopes{"b.example.org"});
  CHECK(status(outcome) == "narrowed");
}

TEST_CASE("a source that leaves nothing of a required dimension denies it") {
  PhaseInput of = input("implement");
  of.sources[0].authority[D::filesystem_write] = {};
  const PhaseOutcome outcome = compiled(of);
  CHECK(codes(outcome.blockers) == Words{"phase-required-authority-denied phase.filesystem.write"});
  CHECK(status(outcome) == "blocked");
  // Of an optional one it is a warning.
  PhaseInput optional = input("implement");
  sandbox(optional).authority[D::credential_access] = {};
  CHECK(codes(compiled(optional).warnings) == Words{"phase-authority-empty phase.credential.access"});
  CHECK(compiled(optional).blockers.empty());
}

TEST_CASE("what nobody holds blocks where it is required, once, and warns elsewhere") {
  for (const auto& [value, code] :
       {std::pair{Holding::unenforceable, "phase-required-authority-unenforceable"},
        std::pair{Holding::unsupported, "phase-required-authority-unsupported"}}) {
    PhaseInput of = input("explore");
    holding(sandbox(of), D::network_egress, value);
    holding(of.sources[4], D::network_egress, value);
    CHECK(codes(compiled(of).blockers) == Words{std::string(code) + " phase.network.egress"});
  }
  PhaseInput optional = input("implement");
  holding(optional.sources[4], D::command_execute, Holding::unenforceable);
  const PhaseOutcome outcome = compiled(optional);
  CHECK(outcome.blockers.empty());
  CHECK(outcome.effective[D::command_execute].empty());
  CHECK(codes(outcome.warnings) == Words{"phase-authority-not-held phase.command.execute"});
  // Nothing is narrowed where everything is allowed: nobody needs to hold it.
  PhaseInput open = input("implement");
  holding(sandbox(open), D::network_egress, Holding::unsupported);
  CHECK(compiled(open).effective[D::network_egress] == everything);
}

TEST_CASE("a plan artifact is one plain path of the phase plan") {
  PhaseInput of = input("plan");
  of.plan_artifact = "docs/plan.md";
  CHECK(compiled(of).effective[D::plan_artifact_write] == Scopes{"docs/plan.md"});
  CHECK(status(compiled(of)) == "allowed");  // the placeholder's own path is no narrowing
  for (const char* phase : {"explore", "implement", "verify", "publish"}) {
    PhaseInput other = input(phase);
    other.plan_artifact = "docs/plan.md";
    CHECK(codes(compiled(other).blockers) == Words{"phase-plan-artifact-not-allowed phase.planArtifact"});
  }
  for (const std::string path :
       {"",     "/a",  "../a", "a/../b", "a/./b", "a//b", "a/",   "-a",    "~/a",  "a b",    "a\tb",
        "a\nb", "a;b", "a|b",  "a*",     "$x",    "`x`",  "a\\b", "a\x7f", "\xff", ".git/x", "a/.git"}) {
    INFO(path);
    of.plan_artifact = path;
    const PhaseOutcome outcome = compiled(of);
    CHECK(codes(outcome.blockers) == Words{"phase-plan-artifact-path-invalid phase.planArtifact"});
    CHECK(outcome.effective[D::plan_artifact_write].empty());
  }
}

TEST_CASE("a child compiled from its parent's evidence never has more, in any pair of phases") {
  const Words phases = {"explore", "plan", "implement", "verify", "publish"};
  for (const std::string& parent : phases) {
    const PhaseOutcome above = compiled(input(parent.c_str()));
    for (const std::string& child : phases) {
      INFO(parent << " then " << child);
      PhaseInput of = input(child.c_str());
      const auto authority = phase_authority(above.section.get("evidence"));
      REQUIRE(authority.has_value());
      of.sources[0].authority = authority.value();
      const PhaseOutcome below = compiled(of);
      for (std::size_t i = 0; i < dimension_count; ++i) {
        const Scopes& had = above.effective.scopes[i];
        CHECK(intersect(below.effective.scopes[i], had) == below.effective.scopes[i]);
        CHECK((had == everything || below.effective.scopes[i] != everything));
      }
    }
  }
}

TEST_CASE("evidence that was edited, and references that are not five, are refused") {
  PhaseInput of = input("verify");
  of.sources[0].origin_scope = "parent";
  of.sources[0].parent_attempt_id = "attempt_a";
  of.sources[0].parent_manifest_digest = sha256_prefixed("m");
  const json::Value good = compiled(of).section;
  REQUIRE_FALSE(check_phase(good).has_error());
  const auto with = [&](const char* name, json::Value value) {
    json::Value section = good;
    section.set(name, std::move(value));
    return check_phase(section).has_error();
  };
  json::Value evidence = good.get("evidence");
  evidence.set("status", "allowed!");
  CHECK(with("evidence", evidence));
  json::Value references = good.get("sourceReferences");
  references.items().pop_back();
  CHECK(with("sourceReferences", references));
  references = good.get("sourceReferences");
  std::swap(references.items()[1], references.items()[2]);
  CHECK(with("sourceReferences", references));
  references = good.get("sourceReferences");
  references.items()[1].set("parentAttemptId", "attempt_a");  // a link where none belongs
  CHECK(with("sourceReferences", references));
  references = good.get("sourceReferences");
  references.items()[0].erase("parentManifestDigest");
  CHECK(with("sourceReferences", references));
  CHECK(with("more", 1));
}

TEST_CASE("an unknown phase, and sources in another order, are no phase") {
  CHECK(compile_phase(input("wander")).error().code == "phase-unknown");
  PhaseInput of = input("explore");
  std::swap(of.sources[0], of.sources[1]);
  CHECK(compile_phase(of).has_error());
  of.sources.pop_back();
  CHECK(compile_phase(of).has_error());
}
