#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "core/canonical.hpp"
#include "documents.hpp"
#include "manifest/manifest.hpp"

using namespace hitchrail;
using namespace hitchrail::manifest;
using hitchrail::manifest::test::runtime_input;

namespace {

json::Value manifest_of(const std::string& provider, std::vector<Capability> capabilities,
                        const std::string& state = "ready") {
  RuntimeManifestInput input = runtime_input();
  input.provider = provider;
  input.adapter = provider + "-adapter";
  input.models = {"small", "Large"};
  input.capabilities = std::move(capabilities);
  input.probe_state = state;
  return build_runtime_manifest(input).value();
}

Capability has(const char* id, CapabilityState state = CapabilityState::supported) {
  return {id, state, CapabilitySource::runtime_probe, "as the test says"};
}

std::vector<std::string> codes(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) {
    out.push_back(finding.code);
  }
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a requirement is satisfied, advisory or refused, and a refusal says why and what to do") {
  const json::Value manifest = manifest_of("p", {has("run.start"), has("run.stop", CapabilityState::advisory),
                                                 has("run.fork", CapabilityState::unsupported)});
  const Words ids = {"run.stop", "run.start", "run.fork", "run.steer", "x.unheard", "run.start"};
  const auto advisory = evaluate_requirements(manifest, ids, false);
  REQUIRE(advisory.size() == 5);
  Words verdicts;
  for (const Requirement& each : advisory) {
    verdicts.push_back(each.id + " " + std::string(to_string(each.verdict)));
    CHECK((each.verdict == Verdict::refused) == !each.remedy.empty());
    CHECK_FALSE(each.reason.empty());
  }
  CHECK(verdicts == Words{"run.fork refused", "run.start satisfied", "run.steer refused", "run.stop advisory",
                          "x.unheard refused"});
  // Under a required preset advisory is not enough.
  CHECK(evaluate_requirements(manifest, {"run.stop"}, true).front().verdict == Verdict::refused);
}

TEST_CASE("requirements are met by one manifest, never by two together") {
  const std::vector<json::Value> manifests = {manifest_of("a", {has("run.start")}),
                                              manifest_of("b", {has("run.stop")})};
  const auto found = select_runtime_manifest(manifests, {"", "", {"run.start", "run.stop"}, true});
  REQUIRE(found.size() == 2);
  CHECK_FALSE(found[0].compatible);
  CHECK_FALSE(found[1].compatible);
  CHECK(codes(found[0].reasons) == Words{"provider-capability-unavailable"});
}

TEST_CASE("the best manifest comes first: compatible, without advisories, ready, then provider and digest") {
  const std::vector<json::Value> manifests = {
      manifest_of("z", {has("run.start")}),
      manifest_of("failed", {has("run.start")}, "failed"),
      manifest_of("degraded", {has("run.start")}, "degraded"),
      manifest_of("advisory", {has("run.start", CapabilityState::advisory)}),
      manifest_of("a", {has("run.start")}),
      manifest_of("lacks", {has("run.stop")}),
  };
  Words order;
  for (const Candidate& candidate : select_runtime_manifest(manifests, {"", "", {"run.start"}, false})) {
    order.push_back(manifests[candidate.index].get("provider").as_string() +
                    (candidate.compatible ? candidate.advisory ? " with warnings" : "" : " not"));
  }
  CHECK(order ==
        Words{"a", "z", "advisory with warnings", "degraded with warnings", "lacks not", "failed not"});
}

TEST_CASE("provider and model are compared in any case, by provider or adapter") {
  const std::vector<json::Value> manifests = {manifest_of("Codex", {has("run.start")})};
  const auto first = [&](const char* provider, const char* model) {
    return select_runtime_manifest(manifests, {provider, model, {"run.start"}, true}).front();
  };
  CHECK(first("codex", "LARGE").compatible);
  CHECK(first("CODEX-ADAPTER", "").compatible);
  CHECK(codes(first("claude", "").reasons) == Words{"provider-mismatch"});
  CHECK(codes(first("codex", "huge").reasons) == Words{"provider-model-unavailable"});
}

TEST_CASE("a manifest that was changed is never compatible") {
  std::vector<json::Value> manifests = {manifest_of("a", {has("run.start")})};
  manifests.front().set("providerVersion", "9.9.9");
  CHECK(codes(select_runtime_manifest(manifests, {"", "", {}, true}).front().reasons) ==
        Words{"provider-probe-failed"});
}

TEST_CASE("what a launch needs follows from resume, fork, tools and budget") {
  CHECK(launch_requirements(LaunchNeeds{}) ==
        Words{"run.complete", "run.logs", "run.start", "run.status", "workspace.worktrees"});
  const auto added = [](const LaunchNeeds& needs) {
    Words out;
    const Words base = launch_requirements(LaunchNeeds{});
    for (const std::string& id : launch_requirements(needs)) {
      if (std::find(base.begin(), base.end(), id) == base.end()) {
        out.push_back(id);
      }
    }
    return out;
  };
  LaunchNeeds needs;
  needs.resume = true;
  CHECK(added(needs) == Words{"run.follow-up", "run.resume"});
  needs = {};
  needs.fork = true;
  CHECK(added(needs) == Words{"run.follow-up", "run.fork"});
  needs = {};
  needs.mcp = true;
  needs.extra = {"output.structured"};
  CHECK(added(needs) == Words{"output.structured", "tool.calls", "tool.mcp"});
  const auto budget = [&](const char* text) {
    LaunchNeeds with;
    with.budget = json::parse(text, json::Duplicates::refuse).value();
    return added(with);
  };
  CHECK(budget(R"({"enabled":true,"limits":{"totalTokens":5}})") == Words{"usage.tokens"});
  CHECK(budget(R"({"enabled":true,"limits":{"costUsd":5,"toolCalls":1}})") ==
        Words{"tool.calls", "usage.tokens"});
  CHECK(budget(R"({"enabled":true,"limits":{"runtimeSeconds":5,"retries":1,"fanOut":2}})").empty());
  CHECK(budget(R"({"enabled":false,"limits":{"totalTokens":5}})").empty());
}

TEST_CASE("twenty controls follow from one manifest, and from none all are unknown and not available") {
  const json::Value manifest =
      manifest_of("p", {has("run.start"), has("run.steer", CapabilityState::advisory)});
  const json::Value set = derive_controls(manifest);
  REQUIRE(set.get("controls").items().size() == 20);
  CHECK(set.get("manifestDigest") == manifest.get("digest"));
  const auto control = [&](const char* action) {
    for (const json::Value& each : set.get("controls").items()) {
      if (each.get("action").as_string() == action) {
        return each;
      }
    }
    return json::Value();
  };
  CHECK(control("start").get("available").as_bool());
  CHECK(control("start").find("remediation") == nullptr);
  CHECK(control("message").get("capabilityId").as_string() == "run.steer");
  CHECK(control("message").get("available").as_bool());
  CHECK(control("message").get("advisory").as_bool());
  CHECK(control("fork").get("state").as_string() == "unknown");
  CHECK_FALSE(control("fork").get("remediation").as_string().empty());
  json::Value edited = manifest;
  edited.set("provider", "other");
  for (const json::Value& none : {json::Value(), edited, json::Value("text")}) {
    const json::Value unknown = derive_controls(none);
    CHECK(unknown.find("manifestDigest") == nullptr);
    REQUIRE(unknown.get("controls").items().size() == 20);
    for (const json::Value& each : unknown.get("controls").items()) {
      CHECK(each.get("state").as_string() == "unknown");
      CHECK_FALSE(each.get("available").as_bool(true));
    }
  }
}

TEST_CASE("a runtime manifest that was read back is refused for each thing that is not as it was written") {
  const json::Value good = manifest_of("p", {has("run.start")});
  REQUIRE_FALSE(check_runtime_manifest(good).has_error());
  const auto refused = [&](const std::function<void(json::Value&)>& spoil) {
    json::Value bad = good;
    spoil(bad);
    (void)seal_document(bad);  // its own digest is right: it is the content that is wrong
    return check_runtime_manifest(bad).has_error();
  };
  const auto first = [](json::Value& document) -> json::Value& {
    for (json::Member& member : document.members()) {
      if (member.first == "capabilities") {
        return member.second.items().front();
      }
    }
    FAIL("no capabilities");
    return document;
  };
  const auto probe = [](json::Value& document, const char* name, json::Value value) {
    json::Value changed = document.get("probe");
    changed.set(name, std::move(value));
    document.set("probe", std::move(changed));
  };
  CHECK_FALSE(refused([](json::Value&) {}));  // the control
  CHECK(refused([](json::Value& d) { d.set("extra", 1); }));
  CHECK(refused([](json::Value& d) { d.erase("models"); }));
  CHECK(refused([](json::Value& d) { d.set("probeRevision", 17); }));
  CHECK(refused([](json::Value& d) { d.set("provider", "9lives"); }));
  CHECK(refused([](json::Value& d) { d.set("providerVersion", std::string(201, 'v')); }));
  CHECK(refused([](json::Value& d) { d.set("providerVersion", "sk-aaaaaaaaaaaaaaaaaaaa"); }));
  CHECK(refused([](json::Value& d) { d.set("models", json::Value::array({"b", "a"})); }));
  CHECK(refused([&](json::Value& d) { first(d).set("more", 1); }));
  CHECK(refused([&](json::Value& d) { first(d).set("state", "maybe"); }));
  CHECK(refused([&](json::Value& d) { first(d).set("source", "hearsay"); }));
  CHECK(refused([&](json::Value& d) { first(d).set("reason", ""); }));
  CHECK(refused([&](json::Value& d) { first(d).set("reason", "token=abcdefghijklmnop"); }));
  CHECK(refused([&](json::Value& d) { first(d).set("id", "zz.last"); }));
  CHECK(refused([&](json::Value& d) { first(d).set("id", "run.start"); }));
  CHECK(refused([&](json::Value& d) { probe(d, "state", "fine"); }));
  CHECK(refused([&](json::Value& d) { probe(d, "state", "failed"); }));  // and still claims run.start
  CHECK(refused([&](json::Value& d) { probe(d, "probedAt", "yesterday"); }));
  CHECK(refused([&](json::Value& d) { probe(d, "more", 1); }));
  CHECK(refused([&](json::Value& d) {
    probe(d, "diagnostics", json::Value::array(std::vector<json::Value>(9, std::string(999, 'd'))));
  }));
  CHECK(refused([](json::Value& d) { d.set("providerVersion", "unknown"); }));  // and ready
  json::Value edited = good;
  edited.set("providerVersion", "1.2.4");
  CHECK(check_runtime_manifest(edited).has_error());
}
