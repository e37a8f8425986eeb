#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "launch/pins.hpp"
#include "plugins/check.hpp"
#include "plugins/plugins.hpp"

namespace hitchrail::cli {

namespace {

struct Ground {
  launch::Installation installation;
  plugins::PluginDirs dirs;
  std::optional<store::StateHome> home;
  std::unique_ptr<plugins::PinStore> pins;
};

Result<Ground> ground_of(const Common& common, store::Access access) {
  Ground ground;
  HR_TRY(installation, launch::find_installation({common.plugin_dirs, common.profile_dirs}));
  ground.installation = std::move(installation);
  ground.dirs = launch::plugin_dirs(ground.installation);
  auto home = store::StateHome::open(access);
  if (home.has_value()) {
    ground.home = std::move(home).value();
  } else if (access == store::Access::write || home.error().code != "state-directory-absent") {
    return std::move(home).error();
  }
  return ground;
}

// Bound after the Ground has its final address: the store points into it.
void bind_pins(Ground& ground) {
  ground.pins = launch::database_pins(ground.home ? &*ground.home : nullptr);
}

json::Value info_json(const plugins::PluginInfo& info) {
  json::Value value = json::Value::object();
  value.set("provider", info.provider);
  value.set("path", info.path);
  value.set("state", plugins::state_name(info.state));
  value.set("enabledByDefault", info.by_default);
  value.set("abi", std::to_string(info.abi_major) + "." + std::to_string(info.abi_minor));
  value.set("sdkVersion", info.sdk_version);
  value.set("digest", info.digest);
  if (!info.error.code.empty()) {
    value.set("problem", error_json(info.error).get("error"));
  }
  return value;
}

Result<int> list(const PluginsOptions& options) {
  HR_TRY(ground, ground_of(options.common, store::Access::read));
  bind_pins(ground);
  HR_TRY(plugins, plugins::list_plugins(ground.dirs, *ground.pins));
  if (options.common.json) {
    json::Value all = json::Value::array();
    for (const auto& info : plugins) {
      all.push(info_json(info));
    }
    json::Value value = json::Value::object();
    value.set("plugins", std::move(all));
    out_json(value);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& info : plugins) {
    rows.push_back({info.provider, std::string(plugins::state_name(info.state)),
                    std::to_string(info.abi_major) + "." + std::to_string(info.abi_minor),
                    info.error.code.empty() ? "" : info.error.code + ": " + info.error.detail, info.path});
  }
  table({"PROVIDER", "STATE", "ABI", "PROBLEM", "PATH"}, rows);
  return 0;
}

Result<int> show(const PluginsOptions& options) {
  HR_TRY(ground, ground_of(options.common, store::Access::read));
  bind_pins(ground);
  HR_TRY(plugins, plugins::list_plugins(ground.dirs, *ground.pins));
  for (const auto& info : plugins) {
    if (info.provider == options.name || info.path == options.name) {
      if (options.common.json) {
        out_json(info_json(info));
      } else {
        line(json::write(info_json(info), 2));
      }
      return 0;
    }
  }
  return Error{ErrorClass::usage,
               "plugin-not-found",
               "show plugin",
               options.name,
               "no folder has such an adapter",
               "hitchrail plugins list"};
}

Result<int> change(const PluginsOptions& options, bool enable) {
  HR_TRY(ground, ground_of(options.common, store::Access::write));
  bind_pins(ground);
  auto changed = enable ? plugins::enable_plugin(ground.dirs, *ground.pins, options.name)
                        : plugins::disable_plugin(ground.dirs, *ground.pins, options.name);
  if (changed.has_error()) {
    return std::move(changed).error();
  }
  if (options.common.json) {
    out_json(info_json(changed.value()));
  } else {
    line(changed.value().provider + ": " + std::string(plugins::state_name(changed.value().state)) +
         (enable ? ", pinned to " + changed.value().digest : ""));
  }
  return 0;
}

json::Value report_json(const plugins::CheckReport& report) {
  json::Value value = json::Value::object();
  value.set("path", report.path);
  value.set("provider", report.provider);
  value.set("digest", report.digest);
  value.set("passed", report.passed());
  json::Value findings = json::Value::array();
  for (const auto& finding : report.findings) {
    json::Value one = json::Value::object();
    one.set("id", finding.id);
    one.set("sentence", finding.sentence);
    one.set("outcome", plugins::outcome_name(finding.outcome));
    if (!finding.detail.empty()) {
      one.set("detail", finding.detail);
    }
    findings.push(std::move(one));
  }
  value.set("findings", std::move(findings));
  return value;
}

Result<int> check(const PluginsOptions& options) {
  HR_TRY(installation, launch::find_installation({}));
  HR_TRY(runner, launch::open_program(installation, "hitchrail-runner"));
  plugins::CheckOptions how;
  how.runner_fd = runner.get();
  HR_TRY(report, plugins::check_plugin(options.name, how));
  if (options.common.json) {
    out_json(report_json(report));
    return report.passed() ? 0 : 1;
  }
  for (const auto& finding : report.findings) {
    line(std::string(plugins::outcome_name(finding.outcome)) + "  " + finding.id + "  " + finding.sentence);
    if (!finding.detail.empty() && finding.outcome != plugins::Outcome::passed) {
      line("        " + finding.detail);
    }
  }
  line(std::to_string(report.count(plugins::Outcome::passed)) + " passed, " +
       std::to_string(report.findings.size() - report.count(plugins::Outcome::passed)) + " not");
  return report.passed() ? 0 : 1;
}

int done(const Result<int>& result, bool json) {
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), json) : result.value();
}

}  // namespace

int plugins_list(const PluginsOptions& options) {
  return done(list(options), options.common.json);
}
int plugins_show(const PluginsOptions& options) {
  return done(show(options), options.common.json);
}
int plugins_enable(const PluginsOptions& options) {
  return done(change(options, true), options.common.json);
}
int plugins_disable(const PluginsOptions& options) {
  return done(change(options, false), options.common.json);
}
int plugins_check(const PluginsOptions& options) {
  return done(check(options), options.common.json);
}

}  // namespace hitchrail::cli
