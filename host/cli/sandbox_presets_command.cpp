#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/presets.hpp"

namespace hitchrail::cli {

namespace {

struct Ground {
  launch::Installation installation;
  std::optional<store::StateHome> home;
  [[nodiscard]] const store::StateHome* state() const { return home ? &*home : nullptr; }
};

Result<Ground> ground_of(const Common& common) {
  Ground ground;
  HR_TRY(installation, launch::find_installation({common.plugin_dirs, common.profile_dirs}));
  ground.installation = std::move(installation);
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_value()) {
    ground.home = std::move(home).value();
  } else if (home.error().code != "state-directory-absent") {
    return std::move(home).error();
  }
  return ground;
}

json::Value texts(const std::vector<std::string>& list) {
  json::Value value = json::Value::array();
  for (const std::string& text : list) {
    value.push(text);
  }
  return value;
}

json::Value filesystem_json(const boundary::Preset& preset) {
  json::Value value = json::Value::object();
  value.set("readPaths", texts(preset.read_paths));
  value.set("writePaths", texts(preset.write_paths));
  value.set("deniedPaths", texts(preset.denied_paths));
  value.set("stores", texts(preset.stores));
  value.set("dotfileMasking", preset.dotfile_masking);
  value.set("localOnlyHandles", preset.local_only_handles);
  return value;
}

json::Value info_json(const launch::PresetInfo& info) {
  json::Value value = json::Value::object();
  value.set("id", info.id);
  value.set("state", launch::state_name(info.state));
  value.set("path", path_value(info.path));
  if (info.preset) {
    const boundary::Preset& preset = *info.preset;
    value.set("name", preset.name);
    value.set("description", preset.description);
    value.set("builtIn", preset.built_in);
    value.set("enforcement", preset.enforcement == boundary::Enforcement::required ? "required" : "advisory");
    value.set("requiredCapabilities", texts(preset.required_capabilities));
    value.set("filesystem", filesystem_json(preset));
    value.set("network", boundary::network_name(preset.network));
    value.set("allowedHosts", texts(preset.allowed_hosts));
    value.set("environment", texts(preset.environment));
    value.set("credentials", boundary::credentials_name(preset.credentials));
    value.set("maxProcesses", preset.max_processes);
    value.set("maxMemory", preset.max_memory);
    value.set("digest", preset.digest);
  }
  if (info.record && (!info.preset || !info.preset->built_in)) {
    value.set("recordedDigest", info.record->digest);
  }
  if (info.error) {
    value.set("problem", error_json(*info.error).get("error"));
  }
  return value;
}

json::Value decision_json(const store::PresetDecision& decision) {
  json::Value value = json::Value::object();
  value.set("action", decision.action);
  value.set("at", iso8601(decision.at_unix_ms));
  value.set("uid", decision.uid);
  value.set("user", decision.user);
  value.set("digest", decision.digest);
  value.set("enforcement", decision.enforcement);
  if (!decision.run.empty()) {
    value.set("run", decision.run);
  }
  return value;
}

std::string who(const store::PresetDecision& decision) {
  return decision.user.empty() ? "uid " + std::to_string(decision.uid)
                               : decision.user + " (uid " + std::to_string(decision.uid) + ")";
}

Result<int> list(const PresetOptions& options) {
  HR_TRY(ground, ground_of(options.common));
  HR_TRY(presets, launch::list_presets(ground.installation, ground.state()));
  if (options.common.json) {
    json::Value all = json::Value::array();
    for (const auto& info : presets) {
      all.push(info_json(info));
    }
    json::Value value = json::Value::object();
    value.set("presets", std::move(all));
    out_json(value);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& info : presets) {
    rows.push_back({info.id, launch::state_name(info.state),
                    !info.preset                                                  ? ""
                    : info.preset->enforcement == boundary::Enforcement::required ? "required"
                                                                                  : "advisory",
                    info.preset ? boundary::network_name(info.preset->network) : "",
                    info.error ? info.error->code + ": " + info.error->detail : ""});
  }
  table({"PRESET", "STATE", "ENFORCEMENT", "NETWORK", "PROBLEM"}, rows);
  return 0;
}

Result<int> show(const PresetOptions& options) {
  HR_TRY(ground, ground_of(options.common));
  HR_TRY(history, launch::show_preset(ground.installation, ground.state(), options.name));
  json::Value value = info_json(history.info);
  json::Value decisions = json::Value::array();
  for (const auto& decision : history.decisions) {
    decisions.push(decision_json(decision));
  }
  value.set("decisions", std::move(decisions));
  if (options.common.json) {
    out_json(value);
    return 0;
  }
  value.erase("decisions");
  line(json::write(value));
  for (const auto& decision : history.decisions) {
    line(iso8601(decision.at_unix_ms) + "  " + decision.action + " by " + who(decision) +
         (decision.run.empty() ? "" : " for " + decision.run) + "  " + decision.digest);
  }
  return 0;
}

Result<int> changed(const Result<launch::PresetInfo>& result, bool json) {
  if (result.has_error()) {
    return result.error();
  }
  const launch::PresetInfo& info = result.value();
  if (json) {
    out_json(info_json(info));
  } else {
    line(info.id + ": " + launch::state_name(info.state) + ", " + info.preset->digest);
  }
  return 0;
}

Result<int> add(const PresetOptions& options) {
  HR_TRY(ground, ground_of(options.common));
  return changed(launch::add_preset(ground.installation, options.name), options.common.json);
}

Result<int> enable(const PresetOptions& options, bool enabled) {
  HR_TRY(ground, ground_of(options.common));
  return changed(launch::enable_preset(ground.installation, options.name, enabled), options.common.json);
}

int done(const Result<int>& result, bool json) {
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), json) : result.value();
}

}  // namespace

int presets_list(const PresetOptions& options) {
  return done(list(options), options.common.json);
}
int presets_show(const PresetOptions& options) {
  return done(show(options), options.common.json);
}
int presets_add(const PresetOptions& options) {
  return done(add(options), options.common.json);
}
int presets_disable(const PresetOptions& options) {
  return done(enable(options, false), options.common.json);
}
int presets_enable(const PresetOptions& options) {
  return done(enable(options, true), options.common.json);
}

}  // namespace hitchrail::cli
