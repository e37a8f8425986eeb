#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "core/canonical.hpp"
#include "launch/exec.hpp"

namespace hitchrail::cli {

namespace {

constexpr int wrapper_error = 125;
constexpr int signal_base = 128;

launch::SandboxRequest request_of(const SandboxOptions& options) {
  launch::SandboxRequest request;
  request.dirs = {options.common.plugin_dirs, options.common.profile_dirs};
  request.preset = options.preset;
  request.worktree = options.worktree;
  request.backend = options.backend;
  request.read = options.read;
  request.relays = options.relays;
  request.hosts = options.hosts;
  request.trust_owner = options.trust_owner;
  return request;
}

json::Value explanation_json(const launch::Explanation& explanation) {
  const boundary::Compiled& compiled = explanation.compiled;
  json::Value value = json::Value::object();
  value.set("presetId", compiled.preset_id);
  value.set("enforcement", compiled.enforcement == boundary::Enforcement::required ? "required" : "advisory");
  value.set("backend", compiled.backend == boundary::Backend::native ? "native" : "landlock");
  value.set("network", boundary::network_name(compiled.network));
  value.set("policyHash", compiled.policy_hash);
  value.set("workingDirectory", path_value(explanation.cwd));
  json::Value paths = json::Value::array();
  for (const auto& path : explanation.paths) {
    json::Value one = json::Value::object();
    one.set("path", path_value(path.path));
    one.set("access", path.access);
    one.set("role", path.role);
    one.set("why", path.why);
    paths.push(std::move(one));
  }
  value.set("paths", std::move(paths));
  json::Value warnings = json::Value::array();
  for (const auto& warning : compiled.warnings) {
    json::Value one = json::Value::object();
    one.set("code", warning.code);
    one.set("detail", warning.detail);
    warnings.push(std::move(one));
  }
  value.set("warnings", std::move(warnings));
  json::Value blockers = json::Value::array();
  for (const auto& blocker : compiled.blockers) {
    blockers.push(error_json(blocker.error).get("error"));
  }
  value.set("blockers", std::move(blockers));
  value.set("evidence", compiled.evidence);
  return value;
}

void print_explanation(const launch::Explanation& explanation) {
  const boundary::Compiled& compiled = explanation.compiled;
  line("preset      " + compiled.preset_id + " (" +
       (compiled.enforcement == boundary::Enforcement::required ? "required" : "advisory") + ")");
  line(std::string("backend     ") + (compiled.backend == boundary::Backend::native ? "native" : "landlock"));
  line(std::string("network     ") + boundary::network_name(compiled.network));
  line("policy      " + compiled.policy_hash);
  std::vector<std::vector<std::string>> rows;
  for (const auto& path : explanation.paths) {
    rows.push_back({path.path, path.access, path.why});
  }
  table({"PATH", "ACCESS", "WHY"}, rows);
  line("Everything else does not exist inside" +
       std::string(compiled.backend == boundary::Backend::native ? "." : ", or cannot be read or written."));
  for (const auto& warning : compiled.warnings) {
    line("warning     " + warning.code + ": " + warning.detail);
  }
  for (const auto& blocker : compiled.blockers) {
    line("BLOCKED     " + blocker.error.code + ": " + blocker.error.object + ": " + blocker.error.detail);
    if (!blocker.error.remedy.empty()) {
      line("            remedy: " + blocker.error.remedy);
    }
  }
}

}  // namespace

int sandbox_explain(const SandboxOptions& options) {
  auto explained = launch::explain_sandbox(request_of(options), options.command);
  if (explained.has_error()) {
    return report(explained.error(), options.common.json);
  }
  const launch::Explanation& explanation = explained.value();
  if (options.common.json) {
    out_json(explanation_json(explanation));
  } else {
    print_explanation(explanation);
  }
  return explanation.compiled.blockers.empty() ? 0
                                               : exit_code(explanation.compiled.blockers.front().error.kind);
}

int sandbox_exec(const SandboxOptions& options) {
  launch::ExecRequest request;
  request.sandbox = request_of(options);
  request.command = options.command;
  request.environment = options.environment;
  request.import_commits = options.import_commits;
  auto ended = launch::exec_in_sandbox(request);
  if (ended.has_error()) {
    // Standard output is the command's; an error of ours says so in JSON only where it was asked for.
    (void)report(ended.error(), options.common.json);
    return wrapper_error;
  }
  for (const std::string& note : ended.value().notes) {
    talk("hitchrail: " + note);
  }
  const boundary::AttachedEnd& end = ended.value().end;
  return end.signaled ? signal_base + end.value : end.value;
}

}  // namespace hitchrail::cli
