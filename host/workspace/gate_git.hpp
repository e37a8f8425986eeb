#pragma once
// The git directory that verification gates see: `git-gate/` of the attempt directory, a copy of `git/` made
// before the run, which the run is never shown. Its configuration, info/, hooks, HEAD, refs and index are the
// host's; nothing that the run wrote into its own git directory is read for it, so no link of the run's is
// ever followed.
//
// The copy of the index is dated before every file: git then believes no entry by size and time, but reads
// the file (a run can put both back). What the operator told git to assume unchanged stays assumed.

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

inline constexpr const char* gate_git_name = "git-gate";

// After prepare_private_git() and hide_masked(), before the directory is given away. Runs no program. Codes:
// worktree-too-large and errno names of the attempt directory.
Status keep_git_for_gates(const Worktree& worktree, int attempt_dirfd);

}  // namespace hitchrail::workspace
