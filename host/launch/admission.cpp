// Admission: one live run per worktree, by the identity of its root and of its own git directory; and the
// ownership of a worktree that Hitchrail made, which outlives a run's process and ends with it. A lease
// that stands in the way is looked through: a finished or vanished holder's is released, a dead supervisor's
// run is finished first, a live one refuses.

#include <functional>

#include "attempt/recover.hpp"
#include "launch/exec.hpp"
#include "launch/stages.hpp"
#include "workspace/worktree_manifest.hpp"

namespace hitchrail::launch {

namespace {

// True when the holder no longer stands in the way.
Result<bool> clear_holder(const Ground& ground, store::Store& store, const store::StateHome& home,
                          const std::string& holder) {
  if (holder.rfind(exec_prefix, 0) == 0) {  // of a `sandbox exec`
    HR_TRY(live, command_holds(home, holder));
    if (!live) {
      HR_CHECK(store.release_worktree(holder));
    }
    return !live;
  }
  HR_TRY(state, attempt::lease_holder(home.fd(), holder));
  switch (state) {
    case attempt::LeaseHolder::live:
      return false;
    case attempt::LeaseHolder::needs_recovery: {
      HR_TRY(finish, open_program(ground.installation, "hitchrail-finish"));
      HR_TRY(directory, attempt::Directory::open(home.fd(), holder));
      HR_TRY(recovery, attempt::recover(directory, finish.get()));
      if (!recovery.status.terminal()) {
        return false;
      }
      break;
    }
    case attempt::LeaseHolder::terminal:
    case attempt::LeaseHolder::gone:
      break;
  }
  HR_CHECK(store.release_worktree(holder));
  return true;
}

Status admit_by(const Ground& ground, const store::StateHome& home, store::Store& store,
                const std::string& path, const std::function<Status()>& claim) {
  // Each turn removes one dead lease; a worktree cannot have many, so a bound only guards against a fault of
  // ours.
  for (int turn = 0; turn < 16; ++turn) {
    Status begun = claim();
    if (begun.has_value()) {
      return begun;
    }
    Error error = std::move(begun).error();
    const std::string holder = error.object;
    if (error.kind != ErrorClass::refused || holder.empty()) {
      return error;
    }
    HR_TRY(cleared, clear_holder(ground, store, home, holder));
    if (!cleared) {
      if (holder.rfind(exec_prefix, 0) == 0) {
        error.remedy = "wait for the sandbox exec that is using it";
      } else if (error.remedy.empty()) {
        error.remedy = "wait for it, or: hitchrail runs stop " + holder;
      }
      return error;
    }
  }
  return Error{ErrorClass::internal,
               "admission-stuck",
               "claim the work tree",
               path,
               "leases of ended runs keep coming back",
               "hitchrail runs recover"};
}

}  // namespace

Status stage_admission(const Ground& ground, const store::StateHome& home, store::Store& store,
                       const store::WorktreeLease& lease, const store::AttemptRow& row) {
  return admit_by(ground, home, store, lease.canonical_path, [&] { return store.begin_attempt(lease, row); });
}

Status claim_ownership(const Ground& ground, const store::StateHome& home, store::Store& store,
                       const WorktreeStage& worktree, const std::string& task_id,
                       const std::string& attempt_id) {
  const std::string& id = worktree.manifest.get("worktreeManifestId").as_string();
  if (id.empty()) {
    return {};
  }
  const auto stands = [&](const std::string& owner) -> Result<bool> {
    HR_TRY(cleared, clear_holder(ground, store, home, owner));
    return !cleared;
  };
  HR_TRY(claimed, workspace::claim_worktree(home.fd(), {id, task_id, attempt_id}, worktree.worktree, stands));
  if (workspace::manifest_reference(claimed) == worktree.manifest) {
    return {};
  }
  return Error{ErrorClass::refused,
               "worktree-manifest-mismatch",
               "claim worktree",
               id,
               "its manifest is another than when the launch was planned",
               "start the run again"};
}

void release_ownership(const store::StateHome& home, const WorktreeStage& worktree,
                       const std::string& attempt_id) {
  const std::string& id = worktree.manifest.get("worktreeManifestId").as_string();
  if (!id.empty()) {
    (void)workspace::release_worktree(home.fd(), id, attempt_id);
  }
}

Status admit_worktree(const Ground& ground, const store::StateHome& home, store::Store& store,
                      const store::WorktreeLease& lease) {
  return admit_by(ground, home, store, lease.canonical_path, [&] { return store.claim_worktree(lease); });
}

}  // namespace hitchrail::launch
