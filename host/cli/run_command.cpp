#include <cstdio>

#include "attempt/attempt.hpp"
#include "cli/follow.hpp"
#include "cli/launch_options.hpp"
#include "cli/options.hpp"
#include "cli/print.hpp"
#include "cli/trust_ask.hpp"
#include "core/text.hpp"
#include "launch/launch.hpp"
#include "manifest/manifest.hpp"
#include "store/state_home.hpp"

namespace hitchrail::cli {

namespace {

void print_timings(const launch::Timings& timings) {
  std::int64_t total = 0;
  for (const auto& [stage, nanos] : timings.stages()) {
    char text[96];
    std::snprintf(text, sizeof text, "stage %-10s %8.2f ms", stage.c_str(), static_cast<double>(nanos) / 1e6);
    talk(text);
    total += nanos;
  }
  char text[96];
  std::snprintf(text, sizeof text, "stage %-10s %8.2f ms", "total", static_cast<double>(total) / 1e6);
  talk(text);
}

void print_notices(const std::vector<Error>& notices) {
  for (const Error& notice : notices) {
    talk("warning[" + notice.code + "]: " + notice.object + ": " + notice.detail + ". " + notice.remedy);
  }
}

void print_warnings(const json::Value& manifest) {
  for (const auto& warning : manifest.get("enforcement").get("warnings").items()) {
    talk("warning[" + warning.get("code").as_string() + "]: " + warning.get("detail").as_string());
  }
}

Result<int> finish(const attempt::Directory& directory, const attempt::AttemptStatus& status,
                   const RunOptions& options) {
  auto completion = attempt::completion(directory);
  if (options.common.json) {
    // The last line of the stream: what the run came to.
    if (completion.has_value()) {
      out(json::write(completion.value()));
      out("\n");
    }
  } else {
    talk(std::string("run ") + attempt::state_name(status.state) +
         (status.code.empty() ? "" : ": " + status.code));
    if (!status.summary.empty()) {
      line(status.summary);
    }
  }
  return status.state == attempt::State::completed && status.status == "success" ? 0 : 1;
}

Result<int> run(const RunOptions& options) {
  HR_TRY(request, launch_request(options));
  auto attempted = launch::start(request);
  if (attempted.has_error()) {
    HR_TRY(allowed, ask_for_trust(options, attempted.error()));
    if (allowed) {
      attempted = launch::start(request);
    }
  }
  HR_TRY(started, std::move(attempted));
  if (options.timings) {
    print_timings(started.timings);
  }
  print_notices(started.notices);
  print_warnings(started.launch_manifest);
  if (options.detach) {
    if (options.common.json) {
      json::Value value = json::Value::object();
      value.set("attemptId", started.attempt_id);
      value.set("launchManifestDigest", started.launch_manifest.get("digest"));
      out_json(value);
    } else {
      line(started.attempt_id);
    }
    return 0;
  }
  talk("run " + started.attempt_id);
  HR_TRY(home, store::StateHome::open(store::Access::read));
  HR_TRY(directory, attempt::Directory::open(home.fd(), started.attempt_id));
  FollowOptions how;
  how.json = options.common.json;
  how.interactive = true;
  HR_CHECK(follow(directory, how));
  HR_TRY(status, wait_finished(directory, 30'000));
  return finish(directory, status, options);
}

std::string list_of(const json::Value& items) {
  std::string text;
  for (const auto& item : items.items()) {
    text += (text.empty() ? "" : " ") + item.as_string();
  }
  return text.empty() ? "none" : text;
}

void print_preview(const launch::Preview& preview) {
  const json::Value& manifest = preview.launch_manifest;
  const json::Value& runtime = manifest.get("runtime");
  const json::Value& sandbox = manifest.get("sandbox");
  line("would run   " + runtime.get("command").as_string() + " " + list_of(runtime.get("args")));
  line("provider    " + preview.runtime_manifest.get("providerVersion").as_string() + " through adapter " +
       preview.runtime_manifest.get("adapter").as_string());
  const json::Value& worktree = runtime.get("worktree");
  line("work tree   " + (worktree.is_string() ? worktree.as_string() : json::write(worktree)));
  line("boundary    preset " + sandbox.get("presetId").as_string() + " (" +
       sandbox.get("enforcement").as_string() + "), backend " + sandbox.get("backend").as_string() +
       ", network " + sandbox.get("effective").get("network").as_string());
  line("environment " + list_of(runtime.get("environmentKeys")));
  line("credentials " + list_of(runtime.get("credentialReferences")));
  const json::Value& enforcement = manifest.get("enforcement");
  for (const auto& warning : enforcement.get("warnings").items()) {
    line("warning     " + warning.get("code").as_string() + ": " + warning.get("detail").as_string());
  }
  for (const auto& blocker : enforcement.get("blockers").items()) {
    line("BLOCKED     " + blocker.get("code").as_string() + ": " + blocker.get("detail").as_string());
    line("            remedy: " + blocker.get("remediation").as_string());
  }
  line("task        " + std::to_string(preview.request_text.size()) + " bytes to the provider");
  line("digest      " + manifest.get("digest").as_string());
}

Result<int> preview(const RunOptions& options) {
  HR_TRY(request, launch_request(options));
  HR_TRY(preview, launch::preview(request));
  if (options.timings) {
    print_timings(preview.timings);
  }
  print_notices(preview.notices);
  if (options.common.json) {
    json::Value value = json::Value::object();
    value.set("manifest", preview.launch_manifest);
    value.set("runtimeManifest", preview.runtime_manifest);
    value.set("taskEnvelope", preview.task_envelope);
    value.set("controls", manifest::derive_controls(preview.runtime_manifest));
    out_json(value);
  } else {
    print_preview(preview);
  }
  // Blockers are data here; the exit code still says that a run would be refused.
  return launch::enforceable(preview.launch_manifest).has_error() ? exit_code(ErrorClass::refused) : 0;
}

int done(const Result<int>& result, bool json) {
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), json) : result.value();
}

}  // namespace

int run_command(const RunOptions& options) {
  return done(run(options), options.common.json);
}

int preview_command(const RunOptions& options) {
  return done(preview(options), options.common.json);
}

}  // namespace hitchrail::cli
