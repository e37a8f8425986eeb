#include <algorithm>
#include <array>
#include <map>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::string_view kSchema = "provider-runtime-manifest/v1";
constexpr std::size_t kMaxCapabilities = 128;
constexpr std::size_t kMaxDiagnostics = 32;
constexpr std::size_t kMaxDiagnosticBytes = 8192;
constexpr std::size_t kMaxModels = 100;
constexpr std::int64_t kMaxRevision = 16;  // older ones stay readable

constexpr std::array<std::string_view, 39> kCapabilities = {"run.start",
                                                            "run.stop",
                                                            "run.status",
                                                            "run.logs",
                                                            "run.complete",
                                                            "run.streaming",
                                                            "run.structured-events",
                                                            "run.follow-up",
                                                            "run.steer",
                                                            "run.interrupt",
                                                            "run.resume",
                                                            "run.fork",
                                                            "run.compact",
                                                            "run.archive",
                                                            "run.close",
                                                            "run.reattach",
                                                            "run.approvals",
                                                            "run.elicitation",
                                                            "tool.calls",
                                                            "tool.parallel",
                                                            "tool.mcp",
                                                            "output.structured",
                                                            "usage.tokens",
                                                            "artifact.write",
                                                            "workspace.worktrees",
                                                            "filesystem.read",
                                                            "filesystem.write",
                                                            "filesystem.deny-paths",
                                                            "filesystem.dotfile-masking",
                                                            "filesystem.protected-metadata",
                                                            "filesystem.descendants",
                                                            "filesystem.run-scoped-temp",
                                                            "filesystem.cleanup",
                                                            "network.disable",
                                                            "network.allowlist",
                                                            "network.block-private",
                                                            "network.block-metadata",
                                                            "environment.allowlist",
                                                            "credential.broker"};

constexpr std::array<std::pair<CapabilityState, std::string_view>, 4> kStates = {
    {{CapabilityState::supported, "supported"},
     {CapabilityState::advisory, "advisory"},
     {CapabilityState::unsupported, "unsupported"},
     {CapabilityState::unknown, "unknown"}}};
constexpr std::array<std::pair<CapabilitySource, std::string_view>, 3> kSources = {
    {{CapabilitySource::runtime_probe, "runtime-probe"},
     {CapabilitySource::contract_test, "contract-test"},
     {CapabilitySource::host_enforced, "host-enforced"}}};

bool valid_capability_id(std::string_view id) {
  return id.size() >= 2 && id.size() <= 80 && id.front() >= 'a' && id.front() <= 'z' &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
         });
}

json::Value capability_array(const RuntimeManifestInput& input, bool failed, Fields& fields) {
  std::map<std::string, Capability, std::less<>> all;
  for (const std::string_view id : kCapabilities) {
    all.emplace(id, Capability{std::string(id), CapabilityState::unknown, CapabilitySource::runtime_probe,
                               "neither the adapter nor the host reported it"});
  }
  for (const Capability& capability : input.capabilities) {
    if (!valid_capability_id(capability.id)) {
      fields.fail("capabilities", "\"" + cut_code_points(capability.id, 100) + "\" is no capability id");
      continue;
    }
    all.insert_or_assign(capability.id, capability);
  }
  fields.at_most("capabilities", all.size(), kMaxCapabilities);
  std::vector<json::Value> out;
  for (const auto& [id, capability] : all) {
    // What the host gives every run is unknown too: nothing may start on a probe that failed.
    const bool lost = failed;
    std::string reason = sanitize_diagnostic(capability.reason);
    fields.text("capabilities." + id + ".reason", reason, 4000);
    json::Value entry = json::Value::object();
    entry.set("id", id);
    entry.set("state", to_string(lost ? CapabilityState::unknown : capability.state));
    entry.set("source", to_string(lost ? CapabilitySource::runtime_probe : capability.source));
    entry.set("reason", lost ? std::string("the probe failed") : std::move(reason));
    out.push_back(std::move(entry));
  }
  return json::Value::array(std::move(out));
}

std::vector<std::string> bounded_diagnostics(const RuntimeManifestInput& input, bool version_unknown) {
  std::vector<std::string> out;
  std::size_t bytes = 0;
  const auto add = [&](std::string_view text) {
    std::string clean = sanitize_diagnostic(text);
    if (!clean.empty() && out.size() < kMaxDiagnostics && bytes + clean.size() <= kMaxDiagnosticBytes) {
      bytes += clean.size();
      out.push_back(std::move(clean));
    }
  };
  if (version_unknown) {
    add("the provider did not say its version");
  }
  for (const std::string& text : input.diagnostics) {
    add(text);
  }
  return out;
}

json::Value text_or_null(std::string text) {
  return text.empty() ? json::Value() : json::Value(std::move(text));
}

}  // namespace

std::string_view to_string(CapabilityState state) {
  return kStates[static_cast<std::size_t>(state)].second;
}
std::string_view to_string(CapabilitySource source) {
  return kSources[static_cast<std::size_t>(source)].second;
}

std::optional<CapabilityState> capability_state(std::string_view text) {
  for (const auto& [state, name] : kStates) {
    if (name == text) {
      return state;
    }
  }
  return std::nullopt;
}

std::optional<CapabilitySource> capability_source(std::string_view text) {
  for (const auto& [source, name] : kSources) {
    if (name == text) {
      return source;
    }
  }
  return std::nullopt;
}

std::span<const std::string_view> known_capabilities() {
  return kCapabilities;
}

Result<json::Value> build_runtime_manifest(const RuntimeManifestInput& input) {
  Fields fields;
  const std::string version = sanitize_diagnostic(input.provider_version);
  const bool unknown = version.empty() || version == "unknown";
  std::string state = input.probe_state;
  fields.one_of("probe.state", state, {"ready", "degraded", "failed"});
  if (unknown && state == "ready") {
    state = "degraded";
  }
  if (!input.provider_sandbox.empty()) {
    fields.one_of("providerSandbox", input.provider_sandbox, {"delegated", "own"});
  }
  const std::vector<std::string> models = as_set(input.models);
  fields.at_most("models", models.size(), kMaxModels);
  for (const std::string& model : models) {
    fields.text("models", model, 200);
    fields.no_secret("models", model);
  }
  json::Value executable;
  if (!input.executable_path.empty() || !input.executable_sha256.empty()) {
    executable =
        json::Value::object({{"path", fields.path("executable.path", input.executable_path)},
                             {"sha256", fields.hex64("executable.sha256", input.executable_sha256)}});
  }
  json::Value build;
  if (!input.adapter_version.empty() || !input.adapter_sha256.empty()) {
    build = json::Value::object({{"version", fields.text("adapterBuild.version", input.adapter_version, 120)},
                                 {"sha256", fields.hex64("adapterBuild.sha256", input.adapter_sha256)}});
  }
  json::Value probe = json::Value::object();
  probe.set("state", state);
  probe.set("probedAt", iso8601(input.probed_at_ms));
  probe.set("source", fields.text("probe.source", input.probe_source, 200));
  probe.set("diagnostics", string_array(bounded_diagnostics(input, unknown)));
  json::Value out = object_of(
      {{"schemaVersion", kSchema},
       {"probeRevision", probe_revision},
       {"provider", fields.token("provider", input.provider)},
       {"adapter", fields.token("adapter", input.adapter)},
       {"protocolVersion", fields.token("protocolVersion", input.protocol_version)},
       {"providerVersion", unknown ? std::string("unknown") : fields.text("providerVersion", version, 200)},
       {"providerBuild",
        text_or_null(fields.optional_text("providerBuild", sanitize_diagnostic(input.provider_build), 300))},
       {"executable", std::move(executable)},
       {"adapterBuild", std::move(build)},
       {"providerSandbox", text_or_null(input.provider_sandbox)},
       {"models", string_array(models)},
       {"capabilities", capability_array(input, state == "failed", fields)},
       {"probe", std::move(probe)}});
  HR_CHECK(fields.status());
  HR_TRY(digest, seal_document(out));
  (void)digest;
  return out;
}

Status apply_probe_result(const json::Value& probe_result, RuntimeManifestInput& input) {
  if (!probe_result.is_object()) {
    return invalid_field("probe result", "an object is needed");
  }
  const auto strings = [&](const char* name, std::vector<std::string>& out) -> Status {
    for (const json::Value& item : probe_result.get(name).items()) {
      if (!item.is_string()) {
        return invalid_field(std::string("probe result.") + name, "strings are needed");
      }
      out.push_back(item.as_string());
    }
    return {};
  };
  input.provider_version = probe_result.get("providerVersion").as_string();
  input.provider_build = probe_result.get("providerBuild").as_string();
  input.protocol_version = probe_result.get("protocolVersion").as_string();
  if (const json::Value* state = probe_result.find("state")) {
    input.probe_state = state->as_string();
  }
  HR_CHECK(strings("models", input.models));
  HR_CHECK(strings("diagnostics", input.diagnostics));
  std::vector<Capability> reported;
  for (const json::Value& item : probe_result.get("capabilities").items()) {
    const std::optional<CapabilityState> state = capability_state(item.get("state").as_string());
    const std::string& id = item.get("id").as_string();
    if (!state) {
      return invalid_field("probe result.capabilities",
                           "\"" + cut_code_points(id, 80) + "\" has no known state");
    }
    for (const Capability& other : reported) {
      if (other.id == id) {
        return invalid_field("probe result.capabilities",
                             "\"" + cut_code_points(id, 80) + "\" is there twice");
      }
    }
    reported.push_back(
        Capability{id, *state, CapabilitySource::runtime_probe, item.get("reason").as_string()});
  }
  // Before what the host has said already: the host's word is the later one.
  input.capabilities.insert(input.capabilities.begin(), reported.begin(), reported.end());
  return {};
}

namespace {

// Members of an object, strictly.
Status only(const json::Value& object, std::string_view field, const std::vector<std::string_view>& names) {
  if (!object.is_object() || object.members().size() != names.size()) {
    return invalid_field(std::string(field), "members are missing, or there are others");
  }
  for (const std::string_view name : names) {
    if (object.find(name) == nullptr) {
      return invalid_field(std::string(field), std::string(name) + " is missing");
    }
  }
  return {};
}

// Text as the builder writes it: of one line, bounded in code points, without the shape of a secret.
void clean_text(Fields& fields, const std::string& field, const json::Value& value, std::size_t max) {
  if (!value.is_string() || value.as_string().empty()) {
    fields.fail(field, "a text is needed");
    return;
  }
  fields.text(field, value.as_string(), max * 4);
  fields.no_secret(field, value.as_string());
  if (cut_code_points(value.as_string(), max) != value.as_string() ||
      sanitize_diagnostic(value.as_string()) != value.as_string()) {
    fields.fail(field, "the text is too long, or not of one line");
  }
}

bool is_time(const std::string& text) {
  static constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd.dddZ";
  return text.size() == form.size() &&
         std::equal(form.begin(), form.end(), text.begin(),
                    [](char want, char is) { return want == 'd' ? is >= '0' && is <= '9' : want == is; });
}

Status check_capabilities(const json::Value& list, Fields& fields) {
  fields.at_most("capabilities", list.items().size(), kMaxCapabilities);
  std::vector<std::string> ids;
  for (const json::Value& item : list.items()) {
    HR_CHECK(only(item, "capabilities", {"id", "state", "source", "reason"}));
    const std::string& id = item.get("id").as_string();
    if (!valid_capability_id(id)) {
      return invalid_field("capabilities", "\"" + cut_code_points(id, 100) + "\" is no capability id");
    }
    if (!capability_state(item.get("state").as_string()) ||
        !capability_source(item.get("source").as_string())) {
      return invalid_field("capabilities." + id, "a capability has an unknown state or source");
    }
    clean_text(fields, "capabilities." + id + ".reason", item.get("reason"), 1000);
    ids.push_back(id);
  }
  if (!std::is_sorted(ids.begin(), ids.end())) {
    return invalid_field("capabilities", "they are not in the order of their ids");
  }
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
    return invalid_field("capabilities", "a capability is there twice");
  }
  for (const std::string_view id : kCapabilities) {
    if (!std::binary_search(ids.begin(), ids.end(), id)) {
      return invalid_field("capabilities", std::string(id) + " is missing");
    }
  }
  return {};
}

Status check_probe(const json::Value& document, Fields& fields) {
  const json::Value& probe = document.get("probe");
  HR_CHECK(only(probe, "probe", {"state", "probedAt", "source", "diagnostics"}));
  const std::string& state = probe.get("state").as_string();
  fields.one_of("probe.state", state, {"ready", "degraded", "failed"});
  if (!is_time(probe.get("probedAt").as_string())) {
    fields.fail("probe.probedAt", "a UTC time with milliseconds is needed");
  }
  clean_text(fields, "probe.source", probe.get("source"), 200);
  fields.at_most("probe.diagnostics", probe.get("diagnostics").items().size(), kMaxDiagnostics);
  std::size_t bytes = 0;
  for (const json::Value& text : probe.get("diagnostics").items()) {
    clean_text(fields, "probe.diagnostics", text, 1000);
    bytes += text.as_string().size();
  }
  if (bytes > kMaxDiagnosticBytes || !probe.get("diagnostics").is_array()) {
    fields.fail("probe.diagnostics", "a list of at most 8192 bytes is needed");
  }
  if (state == "ready" && document.get("providerVersion").as_string() == "unknown") {
    fields.fail("probe.state", "a provider without a version is not ready");
  }
  for (const json::Value& item : document.get("capabilities").items()) {
    if (state == "failed" &&
        (item.get("state").as_string() != "unknown" || item.get("source").as_string() != "runtime-probe")) {
      fields.fail("capabilities", "after a probe that failed every capability is unknown");
    }
  }
  return {};
}

Status check_builds(const json::Value& document, Fields& fields) {
  if (const json::Value* executable = document.find("executable")) {
    HR_CHECK(only(*executable, "executable", {"path", "sha256"}));
    const auto path = path_text(executable->get("path"));
    fields.path("executable.path", path.has_value() ? path.value() : "");
    fields.hex64("executable.sha256", executable->get("sha256").as_string());
  }
  if (const json::Value* build = document.find("adapterBuild")) {
    HR_CHECK(only(*build, "adapterBuild", {"version", "sha256"}));
    fields.text("adapterBuild.version", build->get("version").as_string(), 120);
    fields.hex64("adapterBuild.sha256", build->get("sha256").as_string());
  }
  if (const json::Value* sandbox = document.find("providerSandbox")) {
    fields.one_of("providerSandbox", sandbox->as_string(), {"delegated", "own"});
  }
  return {};
}

}  // namespace

Status check_runtime_manifest(const json::Value& document) {
  HR_CHECK(check_shape(document, kSchema,
                       {"schemaVersion", "probeRevision", "provider", "adapter", "protocolVersion",
                        "providerVersion", "models", "capabilities", "probe", "digest"},
                       {"providerBuild", "executable", "adapterBuild", "providerSandbox"}));
  Fields fields;
  const std::int64_t revision = document.get("probeRevision").as_int().value_or(0);
  if (revision < 1 || revision > kMaxRevision) {
    fields.fail("probeRevision", "a number from 1 to 16 is needed");
  }
  for (const char* name : {"provider", "adapter", "protocolVersion"}) {
    fields.token(name, document.get(name).as_string());
  }
  clean_text(fields, "providerVersion", document.get("providerVersion"), 200);
  if (const json::Value* build = document.find("providerBuild")) {
    clean_text(fields, "providerBuild", *build, 300);
  }
  std::vector<std::string> models;
  for (const json::Value& model : document.get("models").items()) {
    clean_text(fields, "models", model, 200);
    models.push_back(model.as_string());
  }
  fields.at_most("models", models.size(), kMaxModels);
  if (!document.get("models").is_array() || as_set(models) != models) {
    fields.fail("models", "a sorted list without repetitions is needed");
  }
  HR_CHECK(check_builds(document, fields));
  HR_CHECK(check_capabilities(document.get("capabilities"), fields));
  HR_CHECK(check_probe(document, fields));
  return fields.status();
}

Result<std::string> runtime_material_digest(const json::Value& document) {
  constexpr std::array<std::string_view, 1> kWhen = {"probe.probedAt"};
  return material_digest(document, kWhen);
}

}  // namespace hitchrail::manifest
