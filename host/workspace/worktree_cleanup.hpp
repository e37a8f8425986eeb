#pragma once
// Looking at managed worktrees and removing them.
//
// Promises: nothing is removed that is not, by device and inode, what was made; no link is followed and no
// other file system entered; each step is written down first, so that a killed removal goes on where it was;
// the branch goes only when it is ours and still where it began. Reasons that speak against a removal, as the
// contract has them: active-run, active-lease, dirty, untracked, unpushed, unmerged, external-hold (git
// worktree lock), manifest-mismatch, worktree-missing, branch-mismatch, inspection-failed. An override is
// recorded with its reason, its actor and what it bypassed; active-run and manifest-mismatch are never
// overridden. Ignored files speak against nothing.

#include <optional>
#include <string>
#include <vector>

#include "workspace/worktree_manifest.hpp"

namespace hitchrail::workspace {

struct CleanupReason {
  std::string code;
  std::string detail;
};
bool may_override(const std::string& reason);

struct CleanupGround {
  const WorktreeManifests& manifests;
  const GitRunner& git;
  OpenOptions open;
  OwnerStands stands;
  // The run (or command) that is live in this very directory, "" = none.
  std::function<Result<std::string>(const WorktreeManifest&)> live_run;
};
// Everything that speaks against it; nothing is changed.
Result<std::vector<CleanupReason>> inspect_cleanup(const CleanupGround& ground,
                                                   const WorktreeManifest& manifest);

struct Removal {
  std::string id;
  std::vector<CleanupReason> reasons;   // refused for these; empty = removed
  std::vector<CleanupReason> bypassed;  // that were overridden
  bool branch_kept = false;
};
struct RemoveOptions {
  std::string force_reason;  // "" = none
  std::string actor;
  std::function<void(const char* step)> after = nullptr;  // tests end the process there
};
// Code worktree-locked when somebody works on it.
Result<Removal> remove_worktree(const CleanupGround& ground, const std::string& id,
                                const RemoveOptions& options);

struct Pruned {
  std::string id, path;
  std::string what;  // interrupted-creation, interrupted-removal, worktree-missing
  std::optional<Error> error;
};
// What has no life any more: half-made and half-removed worktrees nobody works on, and registrations of
// worktrees that are gone. Existing worktrees are never touched.
Result<std::vector<Pruned>> prune_worktrees(const CleanupGround& ground, bool dry_run,
                                            const RemoveOptions& options);

struct Size {
  std::uint64_t bytes = 0;  // allocated on disk; a file with several names once
  std::uint64_t entries = 0;
  bool complete = true;  // false: over the bound, or a directory that cannot be read
};
Size size_on_disk(const WorktreeManifest& manifest, std::size_t max_entries = 200'000);

}  // namespace hitchrail::workspace
