#include <cstdlib>

#include "boundary/internal.hpp"
#include "launch/exec.hpp"
#include "launch/launch.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

void open_cache(Ground& ground, const std::string& worktree) {
  auto cache = store::Cache::open_existing();
  if (cache.has_error() && cache.error().code == "cache-absent") {
    const auto path = store::Cache::path();
    char* resolved = worktree.empty() ? nullptr : ::realpath(worktree.c_str(), nullptr);
    const std::string root = resolved != nullptr ? resolved : "";
    std::free(resolved);
    const bool inside = !root.empty() && path.has_value() && boundary::contains(root, path.value());
    if (!inside) {
      cache = store::Cache::open();
    }
  }
  if (cache.has_value()) {
    ground.cache = std::move(cache).value();
  } else {
    ground.cache_error = std::move(cache).error();
  }
}

Result<Ground> survey(const Request& request, bool may_write) {
  Ground ground;
  HR_TRY(installation, find_installation(request.dirs));
  ground.installation = std::move(installation);
  HR_TRY(path, store::state_home_path());
  ground.state_path = path;
  ground.may_write = may_write;
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_value()) {
    ground.home = std::move(home).value();
  } else if (home.error().code != "state-directory-absent") {
    return std::move(home).error();
  }
  open_cache(ground, request.worktree);
  ground.machine_probe = std::async(std::launch::async, boundary::probe_machine).share();
  return ground;
}

namespace {

// A stage's value goes to its place in what is prepared so far.
template <class T>
Status keep(T& place, Result<T> result) {
  if (result.has_error()) {
    return std::move(result).error();
  }
  place = std::move(result).value();
  return {};
}

}  // namespace

Result<Prepared> prepare(const Ground& ground, const Request& request, Timings& timings) {
  HR_CHECK(manifest::check_task(request.task));
  Prepared p;
  HR_CHECK(keep(p.limits, stage_limits(request)));
  HR_TRY(comparison, read_comparison(ground, request));
  HR_CHECK(keep(p.profile, timings.measure("profile", [&] { return stage_profile(ground, request); })));
  HR_TRY(planner, spawn_planner(ground, p.profile));
  HR_CHECK(
      keep(p.program, timings.measure("program", [&] { return stage_program(ground, request, p.profile); })));
  HR_CHECK(keep(
      p.probe, timings.measure("probe", [&] { return stage_probe(ground, p.profile, p.program, planner); })));
  if (p.probe.failure && ground.may_write) {
    return *p.probe.failure;  // a preview shows the manifest that says so
  }
  HR_CHECK(keep(p.worktree,
                timings.measure("worktree", [&] { return stage_worktree(ground, request, p.profile); })));
  HR_TRY(phase, stage_phase(ground, request));
  Request narrowed = request;
  if (phase.read_only()) {
    narrowed.commit_policy = "forbidden";
  }
  auto reading = read_baseline(ground, p.worktree.worktree);
  HR_CHECK(keep(p.trust, timings.measure(
                             "trust", [&] { return stage_trust(ground, request, p.profile, p.worktree); })));
  auto judged = timings.measure("boundary", [&] {
    return stage_boundary(ground, request, p.profile, p.program, p.worktree, p.trust, std::move(phase));
  });
  HR_CHECK(keep(p.worktree.baseline, timings.measure("baseline", [&] { return reading.get(); })));
  HR_CHECK(keep(p.boundary, std::move(judged)));
  HR_CHECK(judge_trust(p.trust, request, p.worktree, p.boundary));
  HR_CHECK(timings.measure("planner", [&] { return planner.ready(); }));
  HR_CHECK(keep(p.task, timings.measure("task", [&] {
    return stage_task(ground, narrowed, p.profile, p.probe, p.worktree, p.boundary, planner);
  })));
  HR_CHECK(keep(p.gates, stage_gates(ground, request, p.task, p.boundary)));
  HR_CHECK(keep(p.plan, timings.measure("plan", [&] {
    return stage_plan(ground, request, p.profile, p.program, p.probe, p.worktree, p.boundary, p.task,
                      p.limits, planner);
  })));
  HR_CHECK(keep(p.manifest,
                timings.measure("manifest", [&] { return stage_manifest(ground, request, p, comparison); })));
  return p;
}

Result<Preview> preview(const Request& request) {
  Preview preview;
  HR_TRY(ground, preview.timings.measure("survey", [&] { return survey(request, false); }));
  HR_TRY(prepared, prepare(ground, request, preview.timings));
  if (ground.cache_error) {
    preview.notices.push_back(*ground.cache_error);
  }
  preview.runtime_manifest = std::move(prepared.probe.runtime_manifest);
  preview.task_envelope = std::move(prepared.task.envelope);
  preview.launch_manifest = std::move(prepared.manifest.manifest);
  preview.request_text = std::move(prepared.task.request_text);
  preview.planned_digest = std::move(prepared.manifest.planned_digest);
  preview.drift = std::move(prepared.manifest.drift);
  preview.worktree = prepared.worktree.worktree.root;
  return preview;
}

Result<Started> start(const Request& request, json::Value* particulars) {
  Timings timings;
  HR_TRY(ground, timings.measure("survey", [&] { return survey(request, true); }));
  if (ground.home) {  // what a killed `sandbox exec` left in a worktree would be taken for the operator's
    HR_TRY(swept, sweep_commands(*ground.home));
    (void)swept;
  }
  HR_TRY(prepared, prepare(ground, request, timings));
  if (particulars != nullptr) {
    particulars->set("blockers", prepared.manifest.manifest.get("enforcement").get("blockers"));
    if (!prepared.manifest.drift.empty()) {
      particulars->set("differences", manifest_differences(prepared.manifest.drift));
    }
  }
  HR_CHECK(as_planned(prepared.manifest.planned_digest, prepared.manifest.drift));
  HR_CHECK(enforceable(prepared.manifest.manifest));
  if (request.before_attempt) {
    request.before_attempt();
  }
  HR_TRY(started, stage_attempt(ground, request, prepared, timings));
  if (ground.cache_error) {
    started.notices.push_back(*ground.cache_error);
  }
  return started;
}

Status enforceable(const json::Value& launch_manifest) {
  const json::Value& enforcement = launch_manifest.get("enforcement");
  if (enforcement.get("enforceable").as_bool()) {
    return {};
  }
  const auto& blockers = enforcement.get("blockers").items();
  if (blockers.empty()) {
    return Error{ErrorClass::internal, "manifest-not-enforceable",          "check the launch manifest",
                 "enforcement",        "not enforceable without a blocker", ""};
  }
  const json::Value& first = blockers.front();
  return Error{ErrorClass::refused,
               first.get("code").as_string(),
               "launch",
               first.get("field").as_string(),
               first.get("detail").as_string(),
               first.get("remediation").as_string()};
}

}  // namespace hitchrail::launch
