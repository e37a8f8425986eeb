// Every leaf of a launch manifest is either compared or stands in the table of what is ignored; and a
// manifest that is read back has every member it must have and none that nobody knows.

#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "core/canonical.hpp"
#include "documents.hpp"
#include "manifest/budget.hpp"
#include "manifest/drift.hpp"

namespace hitchrail::manifest::test {
namespace {

// A launch that has something in each section.
json::Value full_manifest() {
  LaunchManifestInput input = launch_input();
  input.model = "large";
  input.time_limit_s = 60;
  input.worktree_manifest = json::Value::object({{"worktreeManifestId", "worktree_1"},
                                                 {"ownershipLeaseId", "lease_1"},
                                                 {"baseResolutionSource", "local"}});
  input.foreign_owner_trusted = true;
  input.budget =
      resolve_budget({budget_from_options({"fanOut=2", "runtimeSeconds=60", "name=small"}).value()}).section;
  input.plan = json::Value::object({{"transport", "stdio"}, {"closeInput", true}});
  input.conversation = json::Value::object({{"mode", "resume"}});
  input.workspace_trust = json::Value::object({{"status", "trusted"}});
  input.sandbox.set("attribution", json::Value::object(
                                       {{"source", "operator"}, {"recordedAt", "2026-01-01T00:00:00.000Z"}}));
  input.warnings = {{"worth-knowing", "task", "a detail", "a remedy"}};
  return built(build_launch_manifest(input));
}

using Visit = std::function<void(const std::string& path, json::Value& leaf)>;

// Leaves, and what has nothing in it. `*` stands for the place in a list, as in the table.
void each_leaf(json::Value& value, const std::string& path, const Visit& visit) {
  if (value.is_object() && !value.members().empty()) {
    for (json::Member& member : value.members()) {
      each_leaf(member.second, path.empty() ? member.first : path + "." + member.first, visit);
    }
  } else if (value.is_array() && !value.items().empty()) {
    for (json::Value& item : value.items()) {
      each_leaf(item, path + ".*", visit);
    }
  } else {
    visit(path, value);
  }
}

json::Value another(const json::Value& leaf) {
  if (leaf.is_string()) {
    return leaf.as_string() + "x";
  }
  if (leaf.is_bool()) {
    return !leaf.as_bool();
  }
  if (leaf.as_int()) {
    return *leaf.as_int() + 1;
  }
  return leaf.is_array() ? json::Value::array({json::Value("x")}) : json::Value("x");
}

bool is_ignored(const std::string& path) {
  for (const Ignored& one : ignored()) {
    if (one.path == path) {
      return true;
    }
  }
  return false;
}

TEST_CASE("every leaf of a launch manifest is compared, or stands in the table of what is ignored") {
  json::Value document = full_manifest();
  const json::Value original = document;
  std::size_t leaves = 0;
  std::set<std::string> met;
  each_leaf(document, "", [&](const std::string& path, json::Value& leaf) {
    ++leaves;
    const json::Value before = leaf;
    leaf = another(before);
    const auto changes = diff(document, original);
    CAPTURE(path);
    if (is_ignored(path)) {
      met.insert(path);
      CHECK(changes.empty());
      CHECK(launch_material_digest(document).value() == launch_material_digest(original).value());
    } else {
      REQUIRE(changes.size() == 1);
      CHECK(changes.front().field == path.substr(0, path.find('.')));
      REQUIRE(changes.front().members.size() == 1);
      CHECK(launch_material_digest(document).value() != launch_material_digest(original).value());
    }
    leaf = before;
  });
  CHECK(document == original);
  CHECK(leaves > 100);
  for (const Ignored& one : ignored()) {
    if (one.path != "sandbox.filesystem.providerRuntimeManifestDigest") {  // real launches only: e2e
      CHECK(met.count(std::string(one.path)) == 1);
    }
  }
}

TEST_CASE("a member that only one of two launch manifests has is a difference") {
  const json::Value original = full_manifest();
  json::Value document = original;
  for (const auto& [name, value] : original.members()) {
    if (is_ignored(name) || name == "parent") {
      continue;
    }
    CAPTURE(name);
    document.erase(name);
    const auto gone = diff(document, original);
    REQUIRE(gone.size() == 1);
    CHECK(gone.front().field == name);
    CHECK(gone.front().after == "absent");
    CHECK(diff(original, document).front().before == "absent");
    document.set(name, value);
  }
}

// Sealed again: what is refused then is the shape, and not the digest.
json::Value sealed_again(json::Value document) {
  document.erase("digest");
  document.set("digest", document_digest(document).value());
  return document;
}

TEST_CASE("a launch manifest without one of its sections, or with one more, is refused by name") {
  const json::Value original = full_manifest();
  REQUIRE(refusal(check_launch_manifest(original)).empty());
  REQUIRE(refusal(check_launch_manifest(sealed_again(original))).empty());
  const std::set<std::string> optional = {"digest", "phase", "conversation", "workspaceTrust", "parent"};
  for (const auto& [name, value] : original.members()) {
    if (optional.count(name) == 0) {
      CAPTURE(name);
      json::Value document = original;
      document.erase(name);
      CHECK(refusal(check_launch_manifest(sealed_again(document))) != "");
    }
  }
}

TEST_CASE("a section with a member that nobody knows is refused with its place") {
  const json::Value original = full_manifest();
  for (const char* section :
       {"taskEnvelope", "providerRuntime", "providerRequirements", "harnessSupport", "routing", "readiness",
        "workspace", "runtime", "tools", "permissions", "resources", "sandbox", "budget", "enforcement"}) {
    CAPTURE(section);
    json::Value document = original;
    json::Value changed = document.get(section);
    changed.set("surprise", 1);
    document.set(section, changed);
    CHECK(refusal(check_launch_manifest(sealed_again(document))) ==
          "manifest-invalid " + std::string(section) + ".surprise");
  }
  for (const char* list : {"instructions", "origins"}) {
    CAPTURE(list);
    json::Value document = original;
    json::Value changed = document.get(list);
    changed.items().front().set("surprise", 1);
    document.set(list, changed);
    CHECK(refusal(check_launch_manifest(sealed_again(document))) ==
          "manifest-invalid " + std::string(list) + ".0.surprise");
  }
}

TEST_CASE("a section without a member it must have is refused with its place") {
  const json::Value original = full_manifest();
  const std::pair<const char*, std::vector<const char*>> must[] = {
      {"taskEnvelope", {"schemaVersion", "digest", "materialDigest"}},
      {"providerRuntime",
       {"digest", "materialDigest", "probeRevision", "provider", "adapter", "providerVersion"}},
      {"providerRequirements", {"required", "capabilities"}},
      {"harnessSupport", {"profileId", "adapterId", "transport", "supportTier"}},
      {"routing", {"requestedAgent", "selectedAgent", "selectedHost", "reason", "fallbackAllowed"}},
      {"readiness", {"ready", "overridden", "passed", "total", "missingRequired", "warnings"}},
      {"workspace", {"workspaceId", "worktreeId", "repo", "baseResolutionSource"}},
      {"runtime",
       {"command", "args", "workingDirectory", "worktree", "environmentKeys", "credentialReferences"}},
      {"tools", {"allowed", "denied", "policyIds", "mcpServers", "enforcement"}},
      {"permissions", {"required", "enforcement"}},
      {"resources", {"skills", "shared", "enforcement"}},
      {"sandbox", {"presetId", "enforcement", "decision", "effective"}},
      {"budget", {"enabled", "scope"}},
      {"enforcement", {"enforceable", "blockers", "warnings"}}};
  for (const auto& [section, names] : must) {
    for (const char* name : names) {
      CAPTURE(section, name);
      json::Value document = original;
      json::Value changed = document.get(section);
      REQUIRE(changed.find(name) != nullptr);
      changed.erase(name);
      document.set(section, changed);
      CHECK(refusal(check_launch_manifest(sealed_again(document))) ==
            "manifest-invalid " + std::string(section) + "." + name);
    }
  }
}

TEST_CASE("owner and base of a worktree are those of this attempt") {
  const json::Value original = full_manifest();
  CHECK(original.get("workspace").get("ownershipAttemptId") == original.get("attemptId"));
  const std::pair<const char*, const char*> wrong[] = {{"ownershipAttemptId", "attempt_9"},
                                                       {"baseResolutionSource", "moon"}};
  for (const auto& [name, value] : wrong) {
    json::Value document = original;
    json::Value workspace = document.get("workspace");
    workspace.set(name, value);
    document.set("workspace", workspace);
    CHECK(refusal(check_launch_manifest(sealed_again(document))) ==
          "manifest-invalid workspace." + std::string(name));
  }
}

}  // namespace
}  // namespace hitchrail::manifest::test
