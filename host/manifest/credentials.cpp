#include "manifest/credentials.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "core/canonical.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::string_view kSchema = "run-launch-credential-plan/v1";
constexpr std::size_t kMaxReferences = 256;
constexpr std::array<std::string_view, 21> kWords = {
    "API_KEY",    "API_KEYS",    "AUTHORIZATION", "AUTH_TOKEN",    "BEARER",   "BEARER_TOKEN", "COOKIE",
    "CREDENTIAL", "CREDENTIALS", "DATABASE_URL",  "DB_URL",        "PASSWORD", "PASS",         "PRIVATE_KEY",
    "SECRET",     "SECRET_KEY",  "SESSION",       "SESSION_TOKEN", "TOKEN",    "WEBHOOK",      "ACCESS_KEY"};

struct Reference {
  std::string name, classification, delivery, boundary, risk;
};

Reference environment_reference(const std::string& name, bool boot) {
  return boot ? Reference{"env:" + name, "harness-boot-authentication", "provider-native-environment",
                          "provider-process", "provider-required"}
              : Reference{"env:" + name, "compatibility-passthrough", "raw-environment", "provider-process",
                          "high-risk"};
}

std::vector<Reference> references_of(const CredentialPlanInput& input) {
  std::vector<Reference> out;
  for (const std::string& name : as_set(input.passed)) {
    const bool boot =
        std::find(input.boot_names.begin(), input.boot_names.end(), name) != input.boot_names.end();
    if (boot || names_credential(name)) {
      out.push_back(environment_reference(name, boot));
    }
  }
  if (!input.login_file.empty()) {
    out.push_back({"file:" + input.login_file, "harness-boot-authentication", "provider-native-file",
                   "provider-process", "provider-required"});
  }
  for (const std::string& reference : as_set(input.task_references)) {
    out.push_back({reference, "task-integration", "blocked", "unavailable", "blocked"});
  }
  std::sort(out.begin(), out.end(), [](const Reference& a, const Reference& b) {
    return std::tie(a.classification, a.name) < std::tie(b.classification, b.name);
  });
  return out;
}

}  // namespace

bool names_credential(std::string_view variable) {
  std::string framed = "_";
  for (const char c : variable) {
    framed += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  framed += "_";
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return framed.find("_" + std::string(word) + "_") != std::string::npos;
  });
}

Result<json::Value> build_credential_plan(const CredentialPlanInput& input) {
  Fields fields;
  const std::vector<Reference> references = references_of(input);
  fields.at_most("credentials.references", references.size(), kMaxReferences);
  std::vector<json::Value> list;
  bool readable = false;
  for (const Reference& one : references) {
    fields.text("credentials.references", one.name, 300);
    readable = readable || one.boundary == "provider-process";
    list.push_back(json::Value::object({{"reference", one.name},
                                        {"classification", one.classification},
                                        {"delivery", one.delivery},
                                        {"boundary", one.boundary},
                                        {"risk", one.risk}}));
  }
  HR_CHECK(fields.status());
  json::Value plan =
      json::Value::object({{"schemaVersion", kSchema},
                           {"mode", input.credentials_allowed ? "env-passthrough" : "none"},
                           {"brokerState", input.task_references.empty() ? "not-required" : "blocked"},
                           {"credentialIsolation", readable ? "none" : "not-required"},
                           {"providerRuntimeManifestDigest", input.runtime_manifest.get("digest")},
                           {"providerRuntimeProbeRevision", input.runtime_manifest.get("probeRevision")},
                           {"references", json::Value::array(std::move(list))}});
  HR_TRY(digest, seal_document(plan));
  (void)digest;
  return plan;
}

Status check_credential_plan(const json::Value& plan, const json::Value& provider_runtime) {
  HR_CHECK(
      check_shape(plan, kSchema,
                  {"schemaVersion", "mode", "brokerState", "credentialIsolation",
                   "providerRuntimeManifestDigest", "providerRuntimeProbeRevision", "references", "digest"},
                  {}));
  if (plan.get("providerRuntimeManifestDigest") != provider_runtime.get("digest") ||
      plan.get("providerRuntimeProbeRevision") != provider_runtime.get("probeRevision")) {
    return invalid_field("credentials", "the plan belongs to another runtime manifest");
  }
  bool readable = false;
  bool blocked = false;
  std::string last;
  for (const json::Value& one : plan.get("references").items()) {
    const std::string key = one.get("classification").as_string() + '\0' + one.get("reference").as_string();
    if (key <= last) {
      return invalid_field("credentials.references", "not sorted, or twice the same");
    }
    last = key;
    readable = readable || one.get("boundary").as_string() == "provider-process";
    blocked = blocked || one.get("delivery").as_string() == "blocked";
  }
  if ((plan.get("credentialIsolation").as_string() == "none") != readable) {
    return invalid_field("credentials.credentialIsolation", "it contradicts the references");
  }
  if ((plan.get("brokerState").as_string() == "blocked") != blocked) {
    return invalid_field("credentials.brokerState", "it contradicts the references");
  }
  return {};
}

}  // namespace hitchrail::manifest
