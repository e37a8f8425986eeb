// A run-launch-manifest/v1 that was read back. Recomputed or compared: the document's digest; the credential
// plan's digest and its binding to the runtime manifest; the filesystem evidence's binding, policy hash and
// posture; owner and base of the worktree; readiness, its override and its blocker; enforceable and the
// blockers; order and uniqueness of every list that is a set; shapes of all sections; the secret test on
// every leaf.

#include <algorithm>
#include <array>
#include <string_view>

#include "core/canonical.hpp"
#include "manifest/credentials.hpp"
#include "manifest/fields.hpp"
#include "manifest/leaves.hpp"
#include "manifest/manifest.hpp"
#include "manifest/phase.hpp"

namespace hitchrail::manifest {
namespace {

using Names = std::vector<std::string_view>;

struct Shape {
  std::string_view section;  // "x.*": items of the list x
  Names required, optional;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> table = {
      {"taskEnvelope", {"schemaVersion", "digest", "materialDigest"}, {}},
      {"providerRuntime",
       {"schemaVersion", "digest", "materialDigest", "probeRevision", "provider", "adapter",
        "protocolVersion", "providerVersion"},
       {"providerBuild", "providerSandbox"}},
      {"providerRequirements", {"required", "capabilities"}, {}},
      {"providerRequirements.capabilities.*", {"id", "state", "satisfied", "advisory", "reason"}, {"remedy"}},
      {"harnessSupport", {"profileId", "adapterId", "transport", "supportTier"}, {"configurationDigest"}},
      {"routing",
       {"requestedAgent", "selectedAgent", "selectedHost", "reason", "fallbackAgent", "fallbackAllowed"},
       {}},
      {"readiness",
       {"ready", "overridden", "passed", "total", "missingRequired", "warnings"},
       {"overrideReasonDigest"}},
      {"instructions.*",
       {"id", "kind", "digest", "materialDigest", "byteLength", "origin", "precedence"},
       {}},
      {"workspace",
       {"workspaceId", "worktreeId", "repo", "baseResolutionSource"},
       {"branch", "baseBranch", "resolvedBaseCommit", "worktreeManifestId", "worktreeManifestRevision",
        "ownershipLeaseId", "ownershipAttemptId", "foreignOwnerTrusted"}},
      {"runtime",
       {"command", "args", "workingDirectory", "worktree", "environmentKeys", "credentialReferences"},
       {"model", "executableSha256", "environmentDigest", "providerOptionsDigest", "timeLimitSeconds",
        "plan"}},
      {"tools", {"allowed", "denied", "policyIds", "mcpServers", "enforcement"}, {"catalogDigest"}},
      {"permissions", {"required", "enforcement"}, {"level"}},
      {"resources", {"skills", "shared", "enforcement"}, {}},
      {"sandbox",
       {"presetId", "enforcement", "decision", "effective"},
       {"presetDigest", "backend", "egress", "warnings", "policyHash", "attribution", "filesystem",
        "unsupportedRules"}},
      {"budget",
       {"enabled", "scope"},
       {"limits", "softThresholdPercent", "hardAction", "enforcement", "unenforceable", "decision",
        "downgradeModel", "name", "notes"}},
      {"origins.*", {"field", "scope", "source", "precedence"}, {}},
      {"parent", {"attemptId", "manifestDigest", "material", "changes"}, {}},
      {"parent.changes.*", {"field", "beforeDigest", "afterDigest"}, {}},
      {"enforcement", {"enforceable", "blockers", "warnings"}, {}},
      {"enforcement.blockers.*", {"code", "field", "detail", "remediation"}, {}},
      {"enforcement.warnings.*", {"code", "field", "detail", "remediation"}, {}},
  };
  return table;
}

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status check_object(const json::Value& value, const std::string& path, const Shape& shape) {
  if (!value.is_object()) {
    return invalid_field(path, "an object is needed");
  }
  for (const std::string_view name : shape.required) {
    if (value.find(name) == nullptr) {
      return invalid_field(path + "." + std::string(name), "the member is missing");
    }
  }
  for (const auto& [name, member] : value.members()) {
    if (!contains(shape.required, name) && !contains(shape.optional, name)) {
      return invalid_field(path + "." + name, "the member is unknown");
    }
  }
  return {};
}

// Every value that the dotted path names, `*` for each item.
Status check_at(const json::Value& value, std::string_view rest, const std::string& path,
                const Shape& shape) {
  if (rest.empty()) {
    return check_object(value, path, shape);
  }
  const std::size_t dot = rest.find('.');
  const std::string_view head = rest.substr(0, dot);
  const std::string_view tail = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  if (head != "*") {
    const std::string below = path.empty() ? std::string(head) : path + "." + std::string(head);
    const json::Value* member = value.find(head);
    return member == nullptr ? Status{} : check_at(*member, tail, below, shape);
  }
  if (!value.is_array()) {
    return invalid_field(path, "a list is needed");
  }
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    HR_CHECK(check_at(value.items()[i], tail, path + "." + std::to_string(i), shape));
  }
  return {};
}

// Lists of strings that are sets: sorted by bytes, each once.
Status check_set(const json::Value& list, const std::string& path) {
  const std::string* last = nullptr;
  for (const json::Value& item : list.items()) {
    if (!item.is_string() || (last != nullptr && item.as_string() <= *last)) {
      return invalid_field(path, "a sorted list of different strings is needed");
    }
    last = &item.as_string();
  }
  return {};
}

// Lists of objects, in the order of these members.
Status check_order(const json::Value& list, const std::string& path, const Names& keys) {
  const auto less = [&](const json::Value& a, const json::Value& b) {
    for (const std::string_view key : keys) {
      const json::Value& x = a.get(key);
      const json::Value& y = b.get(key);
      if (x != y) {
        return x.is_number() ? x.as_int().value_or(0) < y.as_int().value_or(0)
                             : x.as_string() < y.as_string();
      }
    }
    return false;
  };
  return std::is_sorted(list.items().begin(), list.items().end(), less)
             ? Status{}
             : Status(invalid_field(path, "the list is not in its order"));
}

Status check_lists(const json::Value& document) {
  const std::pair<const char*, const char*> sets[] = {{"runtime", "environmentKeys"},
                                                      {"runtime", "credentialReferences"},
                                                      {"providerRequirements", "required"},
                                                      {"readiness", "missingRequired"},
                                                      {"readiness", "warnings"},
                                                      {"permissions", "required"},
                                                      {"tools", "allowed"},
                                                      {"tools", "denied"},
                                                      {"tools", "policyIds"},
                                                      {"tools", "mcpServers"},
                                                      {"resources", "skills"},
                                                      {"resources", "shared"}};
  for (const auto& [section, name] : sets) {
    HR_CHECK(check_set(document.get(section).get(name), std::string(section) + "." + name));
  }
  HR_CHECK(check_set(document.get("requiredHealthChecks"), "requiredHealthChecks"));
  HR_CHECK(check_order(document.get("instructions"), "instructions", {"precedence", "kind", "id"}));
  HR_CHECK(check_order(document.get("origins"), "origins", {"field", "precedence", "source"}));
  const json::Value& enforcement = document.get("enforcement");
  HR_CHECK(check_order(enforcement.get("blockers"), "enforcement.blockers", {"field", "code"}));
  return check_order(enforcement.get("warnings"), "enforcement.warnings", {"field", "code"});
}

bool has_blocker(const json::Value& document, std::string_view code) {
  const auto& blockers = document.get("enforcement").get("blockers").items();
  return std::any_of(blockers.begin(), blockers.end(),
                     [&](const json::Value& one) { return one.get("code").as_string() == code; });
}

Status check_readiness(const json::Value& document) {
  const json::Value& readiness = document.get("readiness");
  const bool overridden = readiness.get("overridden").as_bool();
  if (overridden != (readiness.find("overrideReasonDigest") != nullptr)) {
    return invalid_field("readiness.overrideReasonDigest", "it contradicts readiness.overridden");
  }
  const bool ready = readiness.get("ready").as_bool();
  if (ready != readiness.get("missingRequired").items().empty() || (ready && overridden)) {
    return invalid_field("readiness.ready", "it contradicts the rest of the section");
  }
  if (has_blocker(document, "readiness-not-met") != (!ready && !overridden)) {
    return invalid_field("readiness", "it contradicts the blockers");
  }
  return {};
}

Status check_workspace(const json::Value& document) {
  const json::Value& workspace = document.get("workspace");
  constexpr std::array<std::string_view, 5> sources = {"remote", "local", "local-stale", "legacy-adopted",
                                                       "legacy-launch-head"};
  const std::string& source = workspace.get("baseResolutionSource").as_string();
  if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
    return invalid_field("workspace.baseResolutionSource", "there is no such source");
  }
  const json::Value* owner = workspace.find("ownershipAttemptId");
  if (owner != nullptr && *owner != document.get("attemptId")) {
    return invalid_field("workspace.ownershipAttemptId", "another attempt's");
  }
  if ((owner != nullptr) != (workspace.find("worktreeManifestId") != nullptr)) {
    return invalid_field("workspace.ownershipAttemptId", "it goes with worktreeManifestId");
  }
  return {};
}

Status check_filesystem(const json::Value& document) {
  const json::Value& sandbox = document.get("sandbox");
  const json::Value* evidence = sandbox.find("filesystem");
  if (evidence == nullptr) {
    return {};
  }
  if (evidence->get("providerRuntimeManifestDigest") != document.get("providerRuntime").get("digest")) {
    return invalid_field("sandbox.filesystem.providerRuntimeManifestDigest", "another runtime manifest's");
  }
  for (const char* name : {"policyHash", "presetId", "presetDigest", "backend"}) {
    if (evidence->get(name) != sandbox.get(name)) {
      return invalid_field(std::string("sandbox.filesystem.") + name,
                           "it contradicts sandbox." + std::string(name));
    }
  }
  const bool blocked = sandbox.get("decision").as_string() == "block";
  const bool required = sandbox.get("enforcement").as_string() == "required";
  const std::string expected = blocked ? "unavailable" : required ? "enforced" : "advisory";
  if (evidence->get("state").as_string() != expected || !evidence->get("descendantsEnforced").as_bool()) {
    return invalid_field("sandbox.filesystem.state", expected + " is what decision and enforcement say");
  }
  return {};
}

Status leaf(const json::Value& value, const std::string& path) {
  const auto check = [&](const std::string& text) -> Status {
    Fields fields;
    fields.no_secret(path, text);
    return fields.status();
  };
  if (value.is_string()) {
    return check(value.as_string());
  }
  std::size_t number = 0;
  for (const json::Value& item : value.items()) {
    HR_CHECK(leaf(item, path + "." + std::to_string(number++)));
  }
  for (const auto& [name, member] : value.members()) {
    HR_CHECK(check(name));
    HR_CHECK(leaf(member, path.empty() ? name : path + "." + name));
  }
  return {};
}

}  // namespace

Status no_secret_leaf(const json::Value& document) {
  return leaf(document, "");
}

Status check_launch_manifest(const json::Value& document) {
  HR_CHECK(check_shape(document, "run-launch-manifest/v1",
                       {"schemaVersion",
                        "createdAt",
                        "taskId",
                        "attemptId",
                        "taskEnvelope",
                        "providerRuntime",
                        "providerRequirements",
                        "harnessSupport",
                        "routing",
                        "readiness",
                        "instructions",
                        "workspace",
                        "runtime",
                        "credentials",
                        "tools",
                        "permissions",
                        "resources",
                        "requiredHealthChecks",
                        "sandbox",
                        "budget",
                        "origins",
                        "enforcement",
                        "digest"},
                       {"phase", "conversation", "workspaceTrust", "parent"}));
  for (const Shape& shape : shapes()) {
    HR_CHECK(check_at(document, shape.section, "", shape));
  }
  HR_CHECK(check_lists(document));
  HR_CHECK(check_credential_plan(document.get("credentials"), document.get("providerRuntime")));
  HR_CHECK(check_workspace(document));
  HR_CHECK(check_filesystem(document));
  if (const json::Value* phase = document.find("phase")) {
    HR_CHECK(check_phase(*phase));
  }
  HR_CHECK(check_readiness(document));
  const json::Value& enforcement = document.get("enforcement");
  if (enforcement.get("enforceable").as_bool() != enforcement.get("blockers").items().empty()) {
    return invalid_field("enforcement.enforceable", "it contradicts the list of blockers");
  }
  return no_secret_leaf(document);
}

}  // namespace hitchrail::manifest
