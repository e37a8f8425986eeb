#pragma once
// The commands of `hitchrail worktrees`, on what this installation and machine are: who is live, which
// directories no worktree may lie in, git in its boundaries. The work itself is workspace/worktree_*.

#include <string>
#include <vector>

#include "launch/installation.hpp"
#include "workspace/worktree_cleanup.hpp"
#include "workspace/worktree_create.hpp"

namespace hitchrail::launch {

struct CreateRequest {
  ExtraDirs dirs;
  bool trust_owner = false;
  workspace::CreateWorktree what;  // open, keep_apart and actor are filled in here
};
Result<workspace::WorktreeManifest> create_managed(CreateRequest request);

struct Listed {
  workspace::WorktreeManifest manifest;
  std::string state;  // making, failed, removing, missing, mismatch, leased, idle, removed, damaged
  workspace::Size size;
  std::optional<Error> error;  // damaged: manifest has only its id
};
// Changes nothing.
Result<std::vector<Listed>> list_managed(const ExtraDirs& dirs, bool with_removed);

// `name`: id, unique prefix of one, or path.
Result<workspace::Removal> remove_managed(const ExtraDirs& dirs, const std::string& name,
                                          const std::string& force_reason);
Result<std::vector<workspace::Pruned>> prune_managed(const ExtraDirs& dirs, bool dry_run);

}  // namespace hitchrail::launch
