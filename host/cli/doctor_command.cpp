#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "launch/doctor.hpp"

namespace hitchrail::cli {

namespace {

json::Value finding_json(const launch::Check& check) {
  json::Value value = json::Value::object();
  value.set("id", check.id);
  value.set("level", launch::level_name(check.level));
  value.set("what", check.what);
  if (!check.why.empty()) {
    value.set("why", check.why);
  }
  if (!check.fix.empty()) {
    value.set("fix", check.fix);
  }
  return value;
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  auto examined = launch::examine({options.common.plugin_dirs, options.common.profile_dirs}, options.agent);
  if (examined.has_error()) {
    return report(examined.error(), options.common.json);
  }
  bool blocked = false;
  json::Value all = json::Value::array();
  for (const auto& check : examined.value()) {
    blocked = blocked || check.level == launch::Level::blocking;
    if (options.common.json) {
      all.push(finding_json(check));
      continue;
    }
    line(std::string(launch::level_name(check.level)) + "  " + check.id + ": " + check.what);
    if (check.level != launch::Level::ok) {
      if (!check.why.empty()) {
        line("          why: " + check.why);
      }
      if (!check.fix.empty()) {
        line("          fix: " + check.fix);
      }
    }
  }
  if (options.common.json) {
    json::Value value = json::Value::object();
    value.set("ready", !blocked);
    value.set("findings", std::move(all));
    out_json(value);
  } else {
    line(blocked ? "not ready" : "ready");
  }
  std::fflush(stdout);
  return blocked ? exit_code(ErrorClass::environment) : 0;
}

}  // namespace hitchrail::cli
