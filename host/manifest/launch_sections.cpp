#include "manifest/launch_sections.hpp"

#include <algorithm>
#include <tuple>

#include "core/canonical.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::size_t kId = 160;
constexpr std::size_t kText = 1000;
constexpr std::size_t kMaxInstruction = 5'000'000;
constexpr std::int64_t kMaxPrecedence = 10'000;

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  if (what.empty()) {
    return text;
  }
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

json::Value text_or_null(std::string text) {
  return text.empty() ? json::Value() : json::Value(std::move(text));
}

void check_precedence(Fields& fields, const std::string& field, std::int64_t value) {
  if (value < 0 || value > kMaxPrecedence) {
    fields.fail(field, "a precedence from 0 to 10000 is needed");
  }
}

// The task's own text has no place in this document, however an adapter hands it over.
std::string without_prompt(std::string arg, const LaunchManifestInput& input) {
  constexpr std::size_t kMinMessage = 16;  // a shorter one may be an argument of its own right
  for (const Instruction& instruction : input.instructions) {
    if (instruction.kind == "task") {
      arg = replace_all(std::move(arg), without_run_directory(instruction.content, input.attempt_path),
                        "<prompt>");
    }
  }
  const std::string& message = input.envelope.get("subject").get("message").as_string();
  return arg == message || message.size() >= kMinMessage ? replace_all(std::move(arg), message, "<prompt>")
                                                         : arg;
}

json::Value finding_array(const std::string& field, std::vector<Finding> findings, Fields& fields) {
  std::sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.field, a.code, a.detail) < std::tie(b.field, b.code, b.detail);
  });
  fields.at_most(field, findings.size(), 128);
  std::vector<json::Value> out;
  for (const Finding& finding : findings) {
    out.push_back(json::Value::object({{"code", fields.text(field + ".code", finding.code, kId)},
                                       {"field", fields.text(field + ".field", finding.field, kText)},
                                       {"detail", sanitize_diagnostic(finding.detail)},
                                       {"remediation", sanitize_diagnostic(finding.remediation)}}));
  }
  return json::Value::array(std::move(out));
}

}  // namespace

Result<json::Value> envelope_section(const LaunchManifestInput& input) {
  HR_TRY(material, envelope_material_digest(input.envelope));
  return json::Value::object({{"schemaVersion", input.envelope.get("schemaVersion")},
                              {"digest", input.envelope.get("digest")},
                              {"materialDigest", material}});
}

Result<json::Value> runtime_section(const LaunchManifestInput& input) {
  HR_TRY(material, runtime_material_digest(input.runtime_manifest));
  json::Value out = json::Value::object();
  for (const char* name : {"schemaVersion", "digest", "probeRevision", "provider", "adapter",
                           "protocolVersion", "providerVersion", "providerBuild", "providerSandbox"}) {
    if (const json::Value* member = input.runtime_manifest.find(name)) {
      out.set(name, *member);
    }
  }
  out.set("materialDigest", material);
  return out;
}

json::Value requirements_section(const LaunchManifestInput& input) {
  std::vector<std::string> ids;
  std::vector<json::Value> capabilities;
  for (const Requirement& requirement : input.requirements) {
    ids.push_back(requirement.id);
    capabilities.push_back(json::Value::object({{"id", requirement.id},
                                                {"state", to_string(requirement.state)},
                                                {"satisfied", requirement.satisfied},
                                                {"advisory", requirement.advisory},
                                                {"reason", sanitize_diagnostic(requirement.reason)}}));
  }
  return json::Value::object({{"required", string_array(as_set(ids))},
                              {"capabilities", json::Value::array(std::move(capabilities))}});
}

json::Value routing_section(const LaunchManifestInput& input, Fields& fields) {
  fields.one_of("routing.selectedHost", input.selected_host, {"local-process", "openclaw-gateway"});
  return json::Value::object(
      {{"requestedAgent", fields.text("routing.requestedAgent", input.requested_agent, kId)},
       {"selectedAgent", fields.text("routing.selectedAgent", input.selected_agent, kId)},
       {"selectedHost", input.selected_host},
       {"reason", fields.text("routing.reason", sanitize_diagnostic(input.routing_reason), 4000)},
       {"fallbackAgent", json::Value()},
       {"fallbackAllowed", false}});
}

json::Value instructions_section(const LaunchManifestInput& input, Fields& fields) {
  std::vector<Instruction> sorted = input.instructions;
  std::sort(sorted.begin(), sorted.end(), [](const Instruction& a, const Instruction& b) {
    return std::tie(a.precedence, a.kind, a.id) < std::tie(b.precedence, b.kind, b.id);
  });
  fields.at_most("instructions", sorted.size(), 128);
  std::vector<json::Value> out;
  for (const Instruction& instruction : sorted) {
    fields.one_of("instructions.kind", instruction.kind,
                  {"task", "profile", "template", "repository", "system", "other"});
    check_precedence(fields, "instructions.precedence", instruction.precedence);
    if (instruction.content.size() > kMaxInstruction) {
      fields.fail("instructions.byteLength", "at most 5000000 bytes");
    }
    // The same text of another attempt is the same instruction.
    std::string material = without_run_directory(instruction.content, input.attempt_path);
    material = replace_all(std::move(material), input.attempt_id, "<attempt-id>");
    material = replace_all(std::move(material), input.task_id, "<task-id>");
    material =
        replace_all(std::move(material), input.envelope.get("digest").as_string(), "<envelope-digest>");
    material = replace_all(std::move(material), input.runtime_manifest.get("digest").as_string(),
                           "<runtime-digest>");
    out.push_back(json::Value::object(
        {{"id", fields.text("instructions.id", instruction.id, kId)},
         {"kind", instruction.kind},
         {"digest", sha256_prefixed(instruction.content)},
         {"materialDigest", sha256_prefixed(material)},
         {"byteLength", static_cast<std::int64_t>(instruction.content.size())},
         {"origin", fields.text("instructions.origin", sanitize_diagnostic(instruction.origin), 4000)},
         {"precedence", instruction.precedence}}));
  }
  return json::Value::array(std::move(out));
}

json::Value workspace_section(const LaunchManifestInput& input) {
  json::Value out = json::Value::object();
  for (const char* name :
       {"workspaceId", "worktreeId", "repo", "branch", "baseBranch", "resolvedBaseCommit"}) {
    if (const json::Value* member = input.envelope.get("workspace").find(name)) {
      out.set(name, *member);
    }
  }
  out.set("baseResolutionSource", "legacy-launch-head");
  for (const auto& [name, value] : input.worktree_manifest.members()) {
    out.set(name, value);
  }
  if (!input.worktree_manifest.is_null()) {
    out.set("ownershipAttemptId", input.attempt_id);
  }
  if (input.foreign_owner_trusted) {
    out.set("foreignOwnerTrusted", true);
  }
  return out;
}

json::Value value_digest(const LaunchManifestInput& input, const char* list) {
  const json::Value* values = input.values.find(list);
  if (values == nullptr) {
    return {};
  }
  auto digest = document_digest(json::Value::object({{list, *values}}));
  return digest.has_value() ? json::Value(std::move(digest).value()) : json::Value();
}

json::Value command_section(const LaunchManifestInput& input, Fields& fields) {
  fields.at_most("runtime.args", input.args.size(), 256);
  std::vector<json::Value> args;
  for (std::size_t i = 0; i < input.args.size(); ++i) {
    const std::string field = "runtime.args." + std::to_string(i);
    const std::string arg = without_prompt(without_run_directory(input.args[i], input.attempt_path), input);
    fields.no_secret(field, arg);
    args.emplace_back(fields.optional_text(field, arg, 128u << 10));
  }
  const std::vector<std::string> keys = as_set(input.environment_keys);
  const std::vector<std::string> references = as_set(input.credential_references);
  fields.at_most("runtime.environmentKeys", keys.size(), 128);
  fields.at_most("runtime.credentialReferences", references.size(), 128);
  for (const std::string& key : keys) {
    if (key.find('=') != std::string::npos) {
      fields.fail("runtime.environmentKeys", "names only, no values");
    }
    fields.text("runtime.environmentKeys", key, 200);
  }
  for (const std::string& reference : references) {
    fields.text("runtime.credentialReferences", reference, 300);
    fields.no_secret("runtime.credentialReferences", reference);
  }
  const auto path = [&](const char* name, const std::string& value) {
    return fields.path(std::string("runtime.") + name, without_run_directory(value, input.attempt_path));
  };
  fields.no_secret("runtime.model", input.model);
  json::Value executable = input.runtime_manifest.get("executable").get("sha256");
  return object_of(
      {{"model", text_or_null(fields.optional_text("runtime.model", input.model, 200))},
       {"command", path("command", input.command)},
       {"executableSha256", std::move(executable)},
       {"args", json::Value::array(std::move(args))},
       {"workingDirectory", path("workingDirectory", input.working_directory)},
       {"worktree", path("worktree", input.worktree)},
       {"environmentKeys", string_array(keys)},
       {"environmentDigest", value_digest(input, "environment")},
       {"providerOptionsDigest", value_digest(input, "providerOptions")},
       {"credentialReferences", string_array(references)},
       {"timeLimitSeconds", input.time_limit_s == 0 ? json::Value() : json::Value(input.time_limit_s)},
       {"plan", without_run_directories(input.plan, input.attempt_path)}});
}

json::Value origins_section(const LaunchManifestInput& input, Fields& fields) {
  std::vector<Origin> sorted = input.origins;
  std::sort(sorted.begin(), sorted.end(), [](const Origin& a, const Origin& b) {
    return std::tie(a.field, a.precedence, a.source) < std::tie(b.field, b.precedence, b.source);
  });
  fields.at_most("origins", sorted.size(), 256);
  std::vector<json::Value> out;
  for (const Origin& origin : sorted) {
    fields.one_of("origins.scope", origin.scope,
                  {"run", "parent", "task-envelope", "agent-profile", "workflow", "template", "provider",
                   "workspace", "system-default"});
    check_precedence(fields, "origins.precedence", origin.precedence);
    out.push_back(json::Value::object(
        {{"field", fields.text("origins.field", origin.field, kId)},
         {"scope", origin.scope},
         {"source", fields.text("origins.source", sanitize_diagnostic(origin.source), 4000)},
         {"precedence", origin.precedence}}));
  }
  return json::Value::array(std::move(out));
}

json::Value enforcement_section(const LaunchManifestInput& input, Fields& fields) {
  std::vector<Finding> blockers = input.blockers;
  for (const Requirement& requirement : input.requirements) {
    if (!requirement.satisfied) {
      blockers.push_back(
          {"provider-capability-unavailable", "providerRequirements." + requirement.id,
           requirement.id + " is " + std::string(to_string(requirement.state)) + ": " + requirement.reason,
           "use an agent that has it, or a launch that does not need it"});
    }
  }
  if (input.runtime_manifest.get("probe").get("state").as_string() == "failed") {
    blockers.push_back({"provider-probe-failed", "providerRuntime", "the provider could not be probed",
                        "hitchrail doctor says why"});
  }
  if (input.credentials.get("brokerState").as_string() == "blocked") {
    blockers.push_back({"credential-boundary-unavailable", "credentials",
                        "a task credential would need a broker, and there is none",
                        "leave the credential references out of the preset"});
  }
  return json::Value::object(
      {{"enforceable", blockers.empty()},
       {"blockers", finding_array("enforcement.blockers", std::move(blockers), fields)},
       {"warnings", finding_array("enforcement.warnings", input.warnings, fields)}});
}

json::Value no_tools() {
  return json::Value::object({{"allowed", json::Value::array()},
                              {"denied", json::Value::array()},
                              {"policyIds", json::Value::array()},
                              {"mcpServers", json::Value::array()},
                              {"enforcement", "not-required"}});
}

json::Value no_permissions() {
  return json::Value::object({{"required", json::Value::array()}, {"enforcement", "not-required"}});
}

json::Value no_resources() {
  return json::Value::object(
      {{"skills", json::Value::array()}, {"shared", json::Value::array()}, {"enforcement", "not-required"}});
}

}  // namespace hitchrail::manifest
