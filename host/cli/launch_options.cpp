#include "cli/launch_options.hpp"

#include <utility>

#include "core/input_file.hpp"
#include "core/text.hpp"
#include "manifest/manifest.hpp"
#include "manifest/readiness.hpp"

namespace hitchrail::cli {

namespace {

manifest::TaskForm form_named(const std::string& name) {
  return name == "yaml"       ? manifest::TaskForm::yaml
         : name == "json"     ? manifest::TaskForm::json
         : name == "markdown" ? manifest::TaskForm::markdown
         : name == "text"     ? manifest::TaskForm::text
                              : manifest::TaskForm::automatic;
}

Result<manifest::TaskSpec> read_task(const RunOptions& options) {
  manifest::TaskSpec task;
  if (options.task_file.empty()) {
    task.message = options.message;
  } else {
    const InputRule rule{"task", manifest::max_task_bytes, true,
                         "put the bulk into a file of the worktree and name that file in the task"};
    HR_TRY(text, read_input_file(options.task_file, rule));
    const std::string name = options.task_file == "-" ? "standard input" : options.task_file;
    HR_TRY(parsed, manifest::parse_task(text, form_named(options.task_form), name));
    task = std::move(parsed);
  }
  bool taken = options.task_file == "-";
  for (const std::string& file : options.instructions) {
    if (file == "-" && std::exchange(taken, true)) {
      return Error{ErrorClass::usage, "instructions-standard-input",      "read the instructions",
                   "--instructions",  "standard input is read only once", "give one of them as a file"};
    }
    const InputRule rule{"instructions", manifest::max_task_bytes, true,
                         "put the bulk into a file of the worktree and name that file"};
    HR_TRY(text, read_input_file(file, rule));
    task.instructions.push_back(
        {file == "-" ? "standard input" : "file " + escape_visible(file), std::move(text)});
  }
  return task;
}

}  // namespace

Result<launch::Request> launch_request(const RunOptions& options) {
  launch::Request request;
  request.dirs = {options.common.plugin_dirs, options.common.profile_dirs};
  request.agent = options.agent;
  request.worktree = options.worktree;
  request.sandbox = options.sandbox;
  request.backend = options.backend;
  request.model = options.model;
  if (options.has_resume && options.resume.empty()) {
    return Error{ErrorClass::usage, "attempt-not-found",         "resume",
                 "--resume",        "the attempt's id is empty", "hitchrail runs list"};
  }
  request.resume = options.resume;
  request.executable = options.executable;
  request.relays = options.relays;
  request.phase = options.phase;
  request.plan_artifact = options.plan_artifact;
  request.trust_owner = options.trust_owner;
  request.time_limit_s = options.time_limit_s;
  HR_TRY(task, read_task(options));
  request.task = std::move(task);
  request.commit_policy = options.commits;
  request.sandbox_given = options.sandbox_given;
  request.budget = options.budget;
  request.manifest_file = options.manifest_file;
  request.parent = options.parent;
  request.refuse_drift = options.refuse_drift;
  request.override_reason = options.override_reason;
  if (options.has_override) {
    HR_CHECK(manifest::check_override_reason(options.override_reason));
  }
  for (const auto& option : options.provider_options) {
    const auto equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorClass::usage,     "provider-option-form",
                   "read the options",    option,
                   "it is not KEY=VALUE", "for example --provider-option base_url=http://127.0.0.1:8080/v1"};
    }
    request.provider_options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
  }
  return request;
}

}  // namespace hitchrail::cli
