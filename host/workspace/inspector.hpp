#pragma once
// A GitRunner on boundary::inspector_boundary: git of the system roots, the repository read-only, no home, no
// network.
//
// Every call makes a boundary of its own and is over, with everything it started, when it returns. Codes:
// git-missing, and the boundary's own (boundary-failed, import-unproven where the backend cannot hold a git
// directory's configuration while it is written). Does not do yet: streaming of packs (they pass through
// memory, bounded by GitCall::max_output).

#include "boundary/boundary.hpp"
#include "workspace/git_runner.hpp"

namespace hitchrail::workspace {

// `machine` is copied.
GitRunner inspector_git(const boundary::Machine& machine, const boundary::Options& options = {});

}  // namespace hitchrail::workspace
