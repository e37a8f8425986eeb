#pragma once
// Making a linked git worktree for an attempt.
//
// Promises: every step is written down before it is taken, so that what a killed maker left is found and
// taken back by the next one or by `worktrees prune`; the path appears with everything in it or not at all
// (made aside as .hitchrail-new-ID in the same directory, renamed last, never over anything). Git runs in
// boundaries: the ref is made with only refs/ and logs/ of the repository writable, the files are checked out
// with the repository read-only and a configuration of ours, so that no hook and no filter of it runs at all.
// Of the repository's git directory nothing changes but refs/heads/BRANCH, worktrees/NAME, and after a fetch
// the objects and refs/remotes/origin/BASE. Submodules and sparse checkouts are not taken over.
// Refuses: base-stale, base-stale-reason, branch-invalid, branch-exists, worktree-path-invalid,
// worktree-path-exists, worktree-path-inside, worktree-path-taken, worktree-being-made, lease-bounds, and
// what worktree_base.hpp and open_worktree() refuse.

#include <functional>
#include <string>

#include "workspace/worktree_manifest.hpp"

namespace hitchrail::workspace {

enum class CreateStep { planned, fetched, aside, creating, checked_out, branch, registered, renamed, ready };

struct CreateWorktree {
  std::string repository = ".";
  OpenOptions open;
  std::string path;    // "" = beside the repository: ROOT-BRANCH, slashes as "-"
  std::string base;    // "" = what is checked out
  std::string branch;  // "" = hitchrail/ and eight characters of the id
  bool fetch = false;
  bool accept_stale = false;
  std::string stale_reason;
  std::int64_t lease_s = default_lease_s;
  std::string actor;
  std::vector<std::string> keep_apart;              // the new worktree lies in none of these
  std::function<void(CreateStep)> after = nullptr;  // tests end the process there
};
Result<WorktreeManifest> create_worktree(int state_dirfd, const CreateWorktree& what, const GitRunner& git);

// Takes back what an unfinished creation left: files, registration, branch, scratch. Its lock is held by the
// caller. The manifest then says failed and removed. What is not what was made is left alone: code
// worktree-manifest-mismatch.
Status abandon_worktree(const WorktreeManifests& manifests, const WorktreeLock& lock,
                        WorktreeManifest& manifest, const GitRunner& git);

}  // namespace hitchrail::workspace
