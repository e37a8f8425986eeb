// Stage `worktree`: the operator's repository, its state by git in the inspector boundary, and the
// conversation that a resume goes on with. Changes nothing.

#include <fcntl.h>

#include "attempt/attempt.hpp"
#include "core/file.hpp"
#include "launch/stages.hpp"
#include "workspace/inspector.hpp"
#include "workspace/worktree_manifest.hpp"

namespace hitchrail::launch {

namespace {

Error resume_error(const std::string& code, const std::string& attempt, std::string detail,
                   std::string remedy) {
  return Error{ErrorClass::refused, code, "resume", attempt, std::move(detail), std::move(remedy)};
}

Result<Resumed> find_conversation(const Ground& ground, const Request& request, const ProfileStage& profile,
                                  const workspace::Worktree& worktree) {
  if (!ground.home) {
    return resume_error("attempt-not-found", request.resume, "there are no runs yet", "hitchrail runs list");
  }
  HR_TRY(directory, attempt::Directory::open(ground.home->fd(), request.resume));
  HR_TRY(status, attempt::status(directory));
  if (!status.terminal()) {
    return resume_error(
        "resume-not-ended", directory.id(), std::string("that run is ") + attempt::state_name(status.state),
        status.live() ? "hitchrail runs stop " + directory.id() : "hitchrail runs recover " + directory.id());
  }
  const json::Value& header = directory.header();
  if (header.get("adapter").as_string() != profile.plugin.elf.note.provider_id) {
    return resume_error("resume-other-adapter", directory.id(),
                        "that run used the adapter " + header.get("adapter").as_string(),
                        "use the same --agent");
  }
  if (header.get("worktreeIdentity").as_string() != worktree.identity()) {
    return resume_error("resume-other-worktree", directory.id(),
                        "that conversation belongs to another work tree",
                        "run it with --worktree of that run (hitchrail runs show " + directory.id() + ")");
  }
  HR_TRY(completion, attempt::completion(directory));
  const json::Value& continuation = completion.get("continuation");
  Resumed resumed;
  resumed.attempt_id = directory.id();
  resumed.conversation_id = continuation.get("reference").as_string();
  if (resumed.conversation_id.empty()) {
    return resume_error("resume-no-conversation", directory.id(), "that run left no conversation to continue",
                        "start a new run");
  }
  HR_TRY(home, open_at(directory.fd(), "home", O_RDONLY | O_DIRECTORY));
  resumed.home = std::move(home);
  return resumed;
}

// Of a worktree that Hitchrail made: that it is the very one, on its branch, and nobody's by now. An owner
// that died without an end is looked after at admission.
Result<json::Value> managed(const Ground& ground, const workspace::Worktree& worktree) {
  if (!ground.home) {
    return json::Value();
  }
  const int state = ground.home->fd();
  HR_TRY(manifests, workspace::WorktreeManifests::open(state, store::Access::read));
  HR_TRY(manifest, manifests.of(worktree));
  if (!manifest) {
    return json::Value();
  }
  const auto stands = [&](const std::string& owner) -> Result<bool> {
    HR_TRY(holder, attempt::lease_holder(state, owner));
    return holder == attempt::LeaseHolder::live;
  };
  HR_CHECK(workspace::claimable(*manifest, worktree, "", stands));
  return workspace::manifest_reference(*manifest);
}

}  // namespace

Result<WorktreeStage> stage_worktree(const Ground& ground, const Request& request,
                                     const ProfileStage& profile) {
  workspace::OpenOptions options;
  options.trust_foreign_owner = request.trust_owner;
  options.keep_apart = {ground.state_path, ground.installation.config_dir, ground.installation.program_dir};
  for (const auto* dirs : {&ground.installation.plugin_dirs, &ground.installation.profile_dirs}) {
    options.keep_apart.insert(options.keep_apart.end(), dirs->begin(), dirs->end());
  }
  std::erase(options.keep_apart, "");
  WorktreeStage stage;
  HR_TRY(worktree, workspace::open_worktree(request.worktree, options));
  stage.worktree = std::move(worktree);
  HR_TRY(manifest, managed(ground, stage.worktree));
  stage.manifest = std::move(manifest);
  if (!request.resume.empty()) {
    HR_TRY(resumed, find_conversation(ground, request, profile, stage.worktree));
    stage.resumed = std::move(resumed);
  }
  return stage;
}

std::future<Result<workspace::Baseline>> read_baseline(const Ground& ground,
                                                       const workspace::Worktree& worktree) {
  return std::async(std::launch::async, [&ground, worktree]() -> Result<workspace::Baseline> {
    return workspace::capture_baseline(worktree, workspace::inspector_git(ground.machine()));
  });
}

}  // namespace hitchrail::launch
