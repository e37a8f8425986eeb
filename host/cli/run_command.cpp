#include <cstdio>

#include "attempt/attempt.hpp"
#include "cli/follow.hpp"
#include "cli/launch_notes.hpp"
#include "cli/launch_options.hpp"
#include "cli/options.hpp"
#include "cli/print.hpp"
#include "cli/trust_ask.hpp"
#include "core/text.hpp"
#include "launch/launch.hpp"
#include "manifest/manifest.hpp"
#include "store/state_home.hpp"

namespace hitchrail::cli {

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

namespace {

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

Result<int> run(const RunOptions& options, json::Value& particulars) {
  HR_TRY(request, launch_request(options));
  if (!options.detach) {
    request.before_attempt = hold_interrupts;
  }
  auto attempted = launch::start(request, &particulars);
  if (attempted.has_error()) {
    HR_TRY(allowed, ask_for_trust(options, attempted.error()));
    if (allowed) {
      attempted = launch::start(request, &particulars);
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

// Every reason, not just the first: a refusal by the manifest has them all.
int refuse(const Error& error, const json::Value& particulars, bool json) {
  const auto& blockers = particulars.get("blockers").items();
  if (json) {
    json::Value value = error_json(error);
    for (auto& [name, inner] : value.members()) {
      for (const auto& [key, list] : particulars.members()) {
        if (!list.items().empty()) {
          inner.set(key, list);
        }
      }
    }
    out_json(value);
    return exit_code(error.kind);
  }
  const int code = report(error, false);
  for (std::size_t i = 1; i < blockers.size(); ++i) {
    talk("  also " + blockers[i].get("code").as_string() + ": " + blockers[i].get("detail").as_string());
  }
  return code;
}

}  // namespace

int run_command(const RunOptions& options) {
  json::Value particulars = json::Value::object();
  const Result<int> result = run(options, particulars);
  std::fflush(stdout);
  return result.has_error() ? refuse(result.error(), particulars, options.common.json) : result.value();
}

}  // namespace hitchrail::cli
