#pragma once
// Commits of a run that were not imported stay within the operator's reach: `git-kept/` of the attempt
// directory is a bare repository with a configuration of ours, the run's refs, and the run's and the real
// objects as alternates. So it can be fetched from without reading anything but objects and ids that the run
// has written.

#include <string>

#include "core/result.hpp"
#include "workspace/refs.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

inline constexpr const char* kept_name = "git-kept";

// Replaces an earlier one.
Status keep_refs(const Worktree& worktree, int attempt_dirfd, const std::string& attempt_path,
                 const RefTable& refs, const Head& head);
Status drop_kept(int attempt_dirfd);

}  // namespace hitchrail::workspace
