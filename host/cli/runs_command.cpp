#include <fcntl.h>

#include <chrono>
#include <cstdio>

#include "attempt/attempt.hpp"
#include "attempt/control.hpp"
#include "attempt/recover.hpp"
#include "boundary/boundary.hpp"
#include "cli/follow.hpp"
#include "cli/options.hpp"
#include "cli/print.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "launch/exec.hpp"
#include "launch/installation.hpp"
#include "manifest/manifest.hpp"
#include "store/state_home.hpp"

namespace hitchrail::cli {

namespace {

json::Value status_json(const std::string& id, const attempt::AttemptStatus& status) {
  json::Value value = json::Value::object();
  value.set("attemptId", id);
  value.set("state", attempt::state_name(status.state));
  if (!status.code.empty()) {
    value.set("code", status.code);
  }
  if (status.terminal()) {
    value.set("status", status.status);
    value.set("summary", status.summary);
  }
  json::Value exit = json::Value::object();
  exit.set("kind", status.exit_kind);
  exit.set("value", status.exit_value);
  value.set("exit", std::move(exit));
  value.set("lastSequence", status.last_sequence);
  value.set("createdAt", iso8601(status.created_unix_ms));
  return value;
}

Result<attempt::Directory> open_attempt(const std::string& id) {
  HR_TRY(home, store::StateHome::open(store::Access::read));
  return attempt::Directory::open(home.fd(), id);
}

// Of the attempt's own runtime manifest, and of no other: one that is missing, damaged or not the one the
// attempt was started with makes every control unknown.
json::Value controls_of(const attempt::Directory& directory) {
  const auto read = [&]() -> Result<json::Value> {
    HR_TRY(folder, open_at(directory.fd(), "manifests", O_RDONLY | O_DIRECTORY));
    HR_TRY(text, read_file_at(folder.get(), "runtime-manifest.json", 4u << 20));
    return json::parse(text, json::Duplicates::refuse, "runtime-manifest.json");
  };
  auto manifest = read();
  const bool own = manifest.has_value() &&
                   manifest.value().get("digest") == directory.header().get("providerRuntimeManifestDigest");
  return manifest::derive_controls(own ? manifest.value() : json::Value());
}

Result<json::Value> show_one(const attempt::Directory& directory) {
  HR_TRY(status, attempt::status(directory));
  json::Value value = status_json(directory.id(), status);
  value.set("header", directory.header());
  auto completion = attempt::completion(directory);
  if (completion.has_value()) {
    value.set("completion", std::move(completion).value());
  }
  value.set("controls", controls_of(directory));
  return value;
}

Result<json::Value> list_all() {
  json::Value runs = json::Value::array();
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_error() && home.error().code == "state-directory-absent") {
    return runs;
  }
  if (home.has_error()) {
    return home.error();
  }
  HR_TRY(ids, attempt::list_ids(home.value().fd()));
  for (const auto& id : ids) {
    auto directory = attempt::Directory::open(home.value().fd(), id);
    auto status = directory.has_value() ? attempt::status(directory.value())
                                        : Result<attempt::AttemptStatus>(directory.error());
    if (status.has_error()) {  // one damaged attempt never hides the others
      json::Value broken = error_json(status.error());
      broken.set("attemptId", id);
      broken.set("state", "damaged");
      runs.push(std::move(broken));
      continue;
    }
    json::Value value = status_json(id, status.value());
    const json::Value& header = directory.value().header();
    for (const char* key : {"agent", "provider", "worktree"}) {
      if (const json::Value* member = header.find(key)) {
        value.set(key, *member);
      }
    }
    runs.push(std::move(value));
  }
  return runs;
}

std::string text_of(const json::Value& value) {
  return value.is_string() ? value.as_string() : (value.is_null() ? "" : json::write(value));
}

Result<int> recover_one(const attempt::Directory& directory, int finish_program, bool json) {
  HR_TRY(recovery, attempt::recover(directory, finish_program));
  if (json) {
    json::Value value = status_json(directory.id(), recovery.status);
    value.set("acted", recovery.acted);
    out_json(value);
  } else if (recovery.acted) {
    line("recovered " + directory.id() + ": " + attempt::state_name(recovery.status.state) +
         (recovery.status.code.empty() ? "" : " (" + recovery.status.code + ")"));
  } else {
    line(directory.id() + " needs no recovery: " + attempt::state_name(recovery.status.state));
  }
  return 0;
}

Result<int> recover(const RunsOptions& options) {
  HR_TRY(installation, launch::find_installation({}));
  HR_TRY(finish, launch::open_program(installation, "hitchrail-finish"));
  HR_TRY(home, store::StateHome::open(store::Access::write));
  if (!options.attempt.empty()) {
    HR_TRY(directory, attempt::Directory::open(home.fd(), options.attempt));
    return recover_one(directory, finish.get(), options.common.json);
  }
  HR_TRY(swept, launch::sweep_commands(home));
  if (swept != 0 && !options.common.json) {
    line("removed what " + std::to_string(swept) + " killed sandbox exec left");
  }
  HR_TRY(ids, attempt::list_ids(home.fd()));
  int code = 0;
  for (const auto& id : ids) {
    auto directory = attempt::Directory::open(home.fd(), id);
    auto status = directory.has_value() ? attempt::status(directory.value())
                                        : Result<attempt::AttemptStatus>(directory.error());
    if (status.has_error()) {
      code = report(status.error(), options.common.json);
      continue;
    }
    if (status.value().terminal() && status.value().shim_pid == 0) {
      // What the finisher could not remove then (no permission, say) may go now.
      const Status left = boundary::remove_placeholders(directory.value().fd());
      if (left.has_error()) {
        code = report(left.error(), options.common.json);
      }
    }
    if (status.value().state == attempt::State::needs_recovery) {
      auto one = recover_one(directory.value(), finish.get(), options.common.json);
      if (one.has_error()) {
        code = report(one.error(), options.common.json);
      }
    }
  }
  return code;
}

Result<int> stop(const RunsOptions& options) {
  HR_TRY(directory, open_attempt(options.attempt));
  HR_TRY(before, attempt::status(directory));
  if (before.state == attempt::State::needs_recovery) {
    HR_TRY(installation, launch::find_installation({}));
    HR_TRY(finish, launch::open_program(installation, "hitchrail-finish"));
    return recover_one(directory, finish.get(), options.common.json);
  }
  attempt::AttemptStatus after = before;
  if (!before.terminal()) {
    HR_TRY(stopped, attempt::stop_and_wait(directory, options.kill, std::chrono::seconds(60)));
    after = stopped;
  }
  if (options.common.json) {
    out_json(status_json(directory.id(), after));
  } else {
    line(directory.id() + ": " + attempt::state_name(after.state));
  }
  return 0;
}

int finish_command(const Result<int>& result, bool json) {
  return result.has_error() ? report(result.error(), json) : result.value();
}

}  // namespace

int runs_list(const RunsOptions& options) {
  auto runs = list_all();
  if (runs.has_error()) {
    return report(runs.error(), options.common.json);
  }
  if (options.common.json) {
    json::Value value = json::Value::object();
    value.set("runs", std::move(runs).value());
    out_json(value);
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& run : runs.value().items()) {
    rows.push_back({run.get("attemptId").as_string(), run.get("state").as_string(),
                    run.get("code").as_string(), run.get("agent").as_string(),
                    run.get("createdAt").as_string(), text_of(run.get("worktree"))});
  }
  if (rows.empty()) {
    talk("no runs yet");
    return 0;
  }
  table({"ATTEMPT", "STATE", "CODE", "AGENT", "CREATED", "WORKTREE"}, rows);
  return 0;
}

int runs_show(const RunsOptions& options) {
  auto directory = open_attempt(options.attempt);
  auto shown = directory.has_value() ? show_one(directory.value()) : Result<json::Value>(directory.error());
  if (shown.has_error()) {
    return report(shown.error(), options.common.json);
  }
  if (options.common.json) {
    out_json(shown.value());
    return 0;
  }
  line(json::write(shown.value(), 2));
  return 0;
}

int runs_events(const RunsOptions& options) {
  auto directory = open_attempt(options.attempt);
  if (directory.has_error()) {
    return report(directory.error(), options.common.json);
  }
  FollowOptions how;
  how.json = options.common.json;
  how.follow = options.follow;
  how.after = options.after;
  const Status status = follow(directory.value(), how);
  std::fflush(stdout);
  return status.has_error() ? report(status.error(), options.common.json) : 0;
}

int runs_stop(const RunsOptions& options) {
  return finish_command(stop(options), options.common.json);
}

int runs_recover(const RunsOptions& options) {
  return finish_command(recover(options), options.common.json);
}

}  // namespace hitchrail::cli
