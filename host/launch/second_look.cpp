#include "launch/second_look.hpp"

#include <future>

#include "boundary/recheck.hpp"
#include "launch/pins.hpp"
#include "workspace/inspector.hpp"

namespace hitchrail::launch {

namespace {

Status adapter_still(const Ground& ground, const ProfileStage& profile) {
  auto pins = database_pins(ground.home ? &*ground.home : nullptr);
  HR_TRY(now, plugins::open_plugin(plugin_dirs(ground.installation), *pins, profile.profile.adapter));
  if (now.digest != profile.plugin.digest) {
    return Error{ErrorClass::refused,
                 "plugin-changed",
                 "look at the adapter again",
                 profile.plugin.path,
                 "another adapter was enabled while the launch went on",
                 "start again"};
  }
  return {};
}

Status preset_still(const Ground& ground, const Request& request, const BoundaryStage& boundary) {
  HR_TRY(now, find_preset(ground.installation, ground.home ? &*ground.home : nullptr, request.sandbox));
  if (!now.preset || now.preset->digest != boundary.chosen.preset->digest) {
    return Error{ErrorClass::refused,
                 "preset-changed",
                 "look at the sandbox preset again",
                 request.sandbox,
                 "it was changed while the launch went on",
                 "start again"};
  }
  return {};
}

}  // namespace

Status second_look(const Ground& ground, const Request& request, const Prepared& prepared,
                   const boundary::RunDirectories& run) {
  // Three that wait for different things: the walk over the writable roots for the disk, the baseline for
  // git, and the rest for the database and a few files.
  std::future<Status> baseline = std::async(std::launch::async, [&] {
    return workspace::baseline_still(prepared.worktree.worktree, prepared.worktree.baseline,
                                     workspace::inspector_git(ground.machine()));
  });
  std::future<Status> policy = std::async(std::launch::async, [&]() -> Status {
    HR_CHECK(adapter_still(ground, prepared.profile));
    HR_CHECK(preset_still(ground, request, prepared.boundary));
    return recheck_trust(ground, prepared.trust, prepared.worktree);
  });
  const Status bounds =
      boundary::recheck(prepared.boundary.compiled, prepared.program.executable, run, boundary::Recheck::all);
  const Status others = policy.get();
  const Status tree = baseline.get();
  HR_CHECK(bounds);
  HR_CHECK(others);
  return tree;
}

}  // namespace hitchrail::launch
