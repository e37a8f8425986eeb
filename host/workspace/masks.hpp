#pragma once
// What the boundary masks, as git inside a run sees it: absent, and without a difference.
//
// In the run's own index the masked files that are tracked get the skip-worktree bit, so that git neither
// looks for them nor records them as deleted; what is masked and not tracked is excluded in the private
// info/exclude, so that `git add -A` does not try to add it. Only the private directory is changed, before
// the run: the import compares entries, so the operator's index never gets the bit. A `.gitignore` of the
// repository that takes an untracked dotfile in again ("!.env") wins over the exclusion, and git inside then
// says that it cannot read that file.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "workspace/git_runner.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

// `paths`: relative to the worktree's top level, any bytes. After prepare_private_git(), before the directory
// is given away. Two git calls. Codes: those of a git call, and errno names of the attempt directory.
Status hide_masked(const Worktree& worktree, int attempt_dirfd, const std::string& attempt_path,
                   const std::vector<std::string>& paths, const GitRunner& git);

// A line of info/exclude that means exactly this path (a line feed becomes "?", which no pattern can avoid).
std::string exclude_pattern(const std::string& path);

}  // namespace hitchrail::workspace
