#pragma once
// The GitRunner of this machine: each call of the git program in a boundary of its own that holds the system,
// the call's views and nothing else: no network, no home, time and output bounded, the whole tree gone when
// it returns.

#include "boundary/boundary.hpp"
#include "workspace/git_runner.hpp"

namespace hitchrail::workspace {

// `machine` is copied. Errors: git-missing (no git program in the system's folders), and those of
// boundary::run.
GitRunner inspector_git(const boundary::Machine& machine);

}  // namespace hitchrail::workspace
