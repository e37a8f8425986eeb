#pragma once
// What a new worktree starts from: a branch or a commit, as this repository knows it, or as its origin does
// now.
//
// A branch has a remote counterpart when it has an upstream (branch.NAME.remote) or when
// refs/remotes/origin/NAME exists and there is an origin: then what is here may be stale, and either the
// remote is asked or somebody answers for it. A branch without one is `local`; a commit named by its id is
// what it is.
//
// Promises: a fetch is made into a git directory of our own (no configuration, hook, credential helper or ssh
// command of the repository; no ext:: transport; no submodules), in a boundary with the host's network that
// cannot write the repository; what came is checked by git's fsck rules and brought over by the import
// boundary. Codes: base-unknown, base-unborn, base-remote-other, base-fetch-failed (with the reason),
// fetch-transport-unsupported, fetch-url-credentials.

#include <string>

#include "core/result.hpp"
#include "workspace/git_config.hpp"
#include "workspace/git_runner.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

struct LocalBase {
  std::string branch;         // "" for a commit
  std::string commit;         // as this repository knows it
  std::string remote;         // of its counterpart, "" = it has none
  std::string remote_branch;  // its name there
};
// The repository's own configuration; nothing it includes.
Result<GitConfig> repository_config(const Worktree& worktree);
// `base`: a branch, origin/BRANCH, or a commit id of at least seven digits; "" = what is checked out.
Result<LocalBase> resolve_base(const Worktree& worktree, const GitConfig& config, const std::string& base,
                               const GitRunner& git);

// refs/remotes/origin/BRANCH as the origin has it now; its commit. `scratch`: an empty directory of ours at
// the path.
Result<std::string> fetch_base(const Worktree& worktree, const GitConfig& config, const LocalBase& base,
                               int scratch_fd, const std::string& scratch, const GitRunner& git);

}  // namespace hitchrail::workspace
