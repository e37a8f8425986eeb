// run-launch-manifest/v1, put together. Its sections: launch_sections.cpp; reading one back:
// launch_check.cpp.

#include <algorithm>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "manifest/credentials.hpp"
#include "manifest/fields.hpp"
#include "manifest/launch_sections.hpp"
#include "manifest/leaves.hpp"

namespace hitchrail::manifest {
namespace {

Status fits_together(const LaunchManifestInput& input) {
  if (input.envelope.get("launchManifest").get("digest") != input.runtime_manifest.get("digest")) {
    return invalid_field("taskEnvelope", "it is bound to another runtime manifest");
  }
  if (input.envelope.get("attempt").get("id").as_string() != input.attempt_id) {
    return invalid_field("attemptId", "the task envelope is another attempt's");
  }
  const std::pair<const char*, const json::Value*> needed[] = {{"harnessSupport", &input.harness_support},
                                                               {"sandbox", &input.sandbox},
                                                               {"readiness", &input.readiness},
                                                               {"credentials", &input.credentials}};
  for (const auto& [name, section] : needed) {
    if (!section->is_object()) {
      return invalid_field(name, "the section is missing");
    }
  }
  return {};
}

}  // namespace

json::Value launch_values(const NamedValues& environment, const NamedValues& provider_options,
                          const std::string& attempt_path) {
  const auto list = [&](NamedValues values) {
    std::sort(values.begin(), values.end());
    json::Value out = json::Value::array();
    for (const auto& [name, value] : values) {
      const std::string text = without_run_directory(value, attempt_path);
      const bool secret = names_credential(name) || looks_like_secret(text);
      out.push(json::Value::object(
          {{"name", path_value(name)},
           {"value", secret ? json::Value::object({{"sha256", sha256_prefixed(text)}}) : path_value(text)}}));
    }
    return out;
  };
  return json::Value::object({{"schemaVersion", "launch-values/v1"},
                              {"environment", list(environment)},
                              {"providerOptions", list(provider_options)}});
}

Result<json::Value> build_launch_manifest(const LaunchManifestInput& input) {
  HR_CHECK(check_task_envelope(input.envelope));
  HR_CHECK(check_runtime_manifest(input.runtime_manifest));
  HR_CHECK(fits_together(input));
  HR_TRY(envelope, envelope_section(input));
  HR_TRY(runtime, runtime_section(input));
  Fields fields;
  const auto section = [&](const json::Value& value) {
    return without_run_directories(value, input.attempt_path);
  };
  const auto section_or = [&](const json::Value& value, const json::Value& otherwise) {
    return value.is_null() ? otherwise : section(value);
  };
  const json::Value no_budget = json::Value::object({{"enabled", false}, {"scope", "run"}});
  json::Value out = object_of({{"schemaVersion", "run-launch-manifest/v1"},
                               {"createdAt", iso8601(input.created_at_ms)},
                               {"taskId", fields.text("taskId", input.task_id, 160)},
                               {"attemptId", fields.text("attemptId", input.attempt_id, 160)},
                               {"taskEnvelope", std::move(envelope)},
                               {"providerRuntime", std::move(runtime)},
                               {"providerRequirements", requirements_section(input)},
                               {"harnessSupport", section(input.harness_support)},
                               {"routing", routing_section(input, fields)},
                               {"phase", section(input.phase)},
                               {"readiness", section(input.readiness)},
                               {"instructions", instructions_section(input, fields)},
                               {"workspace", section(workspace_section(input))},
                               {"runtime", command_section(input, fields)},
                               {"conversation", section(input.conversation)},
                               // A sealed document of its own, which names no path of the run.
                               {"credentials", input.credentials},
                               {"tools", section_or(input.tools, no_tools())},
                               {"permissions", section_or(input.permissions, no_permissions())},
                               {"resources", section_or(input.resources, no_resources())},
                               {"requiredHealthChecks", string_array(as_set(input.required_health_checks))},
                               {"sandbox", section(input.sandbox)},
                               {"budget", section_or(input.budget, no_budget)},
                               {"workspaceTrust", section(input.workspace_trust)},
                               {"origins", origins_section(input, fields)},
                               {"parent", input.parent},
                               {"enforcement", enforcement_section(input, fields)}});
  HR_CHECK(fields.status());
  HR_CHECK(no_secret_leaf(out));
  HR_TRY(digest, seal_document(out));
  (void)digest;
  return out;
}

}  // namespace hitchrail::manifest
