#pragma once
// The second look: everything that can have changed between the plan and the harness, looked at again when
// the lease is held and right before the shim starts. Repairs nothing: the first difference is the Error, and
// the caller ends the attempt as a journaled run.failed with its code and removes what was made.
//
// Looks at: executable, roots, mounts, hard links and protected names (boundary/recheck.hpp and its codes),
// the adapter (its file still has the pinned digest, the pin still stands: plugin-changed, plugin-disabled),
// the preset (still enabled and unchanged: preset-changed, preset-disabled and their like), the repository's
// instructions and executable configuration (workspace-trust-changed), and the baseline (baseline-changed).
// What waits for a disk or for git is done side by side.

#include "launch/stages.hpp"

namespace hitchrail::launch {

Status second_look(const Ground& ground, const Request& request, const Prepared& prepared,
                   const boundary::RunDirectories& run);

}  // namespace hitchrail::launch
