#pragma once
// The road: the one way to start a harness. A list of stages, each from immutable values to the next;
// preview() is the same list stopped before the first stage that changes anything.
//
//   profile → program → probe → worktree → phase → boundary → task → plan → manifest → admission | attempt →
//   spawn
//
// The boundary is compiled before the adapter's plan, for the plan is told the paths as the harness will see
// them and whether the provider's own sandbox is delegated; the plan adds names and files to what was
// compiled, never a grant.
//
// Promises: nothing is written before `attempt` (the probe cache excepted); a refusal is an Error with code,
// field and remedy; no provider program runs outside a boundary. Does not do yet: fork, `run --manifest`,
// readiness overrides, budgets, queues.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "launch/installation.hpp"
#include "launch/timings.hpp"
#include "manifest/drift.hpp"
#include "manifest/task_spec.hpp"

namespace hitchrail::launch {

struct Request {
  // Called when everything was judged and before the first change: from here on Ctrl-C means to stop the run.
  std::function<void()> before_attempt;
  ExtraDirs dirs;
  std::string agent;
  std::string worktree = ".";
  manifest::TaskSpec task;
  std::string commit_policy;  // of the command line; "" = the task's, else `allowed`
  std::string sandbox = "workspace";
  std::string backend;  // "", "native", "landlock"
  std::string model;
  std::string resume;      // attempt id or unique prefix; same worktree only
  std::string executable;  // instead of the profile's command
  std::vector<std::pair<std::string, std::string>> provider_options;
  std::vector<std::string> relays;  // ADDRESS:PORT the run reaches through its gate
  bool trust_owner = false;
  std::uint64_t time_limit_s = 0;
  bool sandbox_given = false;       // `sandbox` was asked for, and is not the default
  std::string manifest_file;        // run exactly what this run-launch-manifest/v1 says, or refuse
  std::string parent;               // attempt id or unique prefix: compare with its launch manifest
  bool refuse_drift = false;        // anything that differs from `parent` is a blocker
  std::string override_reason;      // of the readiness gate; only its digest is kept
  std::vector<std::string> budget;  // KEY=VALUE
  std::string phase;                // explore, plan, implement, verify, publish; "" = the task's, else none
  std::string plan_artifact;        // path below the worktree, of phase `plan`
};

struct Preview {
  json::Value runtime_manifest;
  json::Value task_envelope;
  json::Value launch_manifest;
  std::string request_text;                    // what the provider would be told
  std::string planned_digest;                  // of --manifest, "" without one
  std::vector<manifest::SectionChange> drift;  // how the launch differs from it now
  std::string worktree;                        // its canonical path
  std::vector<Error> notices;  // what went wrong and cost time only: the probe cache could not be used
  Timings timings;
};
// Blockers of policy are in launch_manifest.enforcement.blockers; everything else that would stop a run is
// the Error.
Result<Preview> preview(const Request& request);

struct Started {
  std::string attempt_id;
  json::Value launch_manifest;
  std::vector<Error> notices;
  Timings timings;
};
// Returns when the harness has been exec'd (or refused). The run then lives without the caller. A refusal by
// the manifest puts all its reasons into `particulars`: {blockers[], differences[]?}.
Result<Started> start(const Request& request, json::Value* particulars = nullptr);

// Success when nothing differs from the planned manifest; else manifest-drift, which names each difference.
Status as_planned(const std::string& planned_digest, const std::vector<manifest::SectionChange>& drift);
// [{section, beforeDigest, afterDigest, members[{path, before, after}]}]
json::Value manifest_differences(const std::vector<manifest::SectionChange>& drift);
// A manifest that was kept: of `preview --output`. One descriptor, a regular file, no link, at most 4 MiB;
// its own digest, its shape and its cross checks. manifest-file-unreadable, manifest-file-unsafe,
// manifest-too-large, manifest-file-invalid, manifest-digest-mismatch.
Result<json::Value> read_manifest_file(const std::string& path);

// For such a file: a new one, 0600, outside the worktree (in it, it would be part of what the manifest says).
// manifest-output-exists, manifest-output-in-worktree.
Status keep_manifest(const std::string& path, const Preview& preview);

// The first blocker of a launch manifest as an Error; success when it is enforceable.
Status enforceable(const json::Value& launch_manifest);

}  // namespace hitchrail::launch
