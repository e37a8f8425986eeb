#pragma once
// The outputs that the envelope expects at a path, looked at when the run is over.
//
// Promises: through pathfs only; no link is followed, nothing blocks on a FIFO, at most max_artifact_bytes
// are read of all together. Verified is a regular file that this run changed, or made where git does not look
// (an ignored path), with the SHA-256 of what stands there now. Everything else is listed with the reason:
// missing, not-a-file, not-changed-by-run, too-large, unreadable, changing.

#include <cstdint>

#include "core/json.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::finish {

inline constexpr std::uint64_t max_artifact_bytes = 1ull << 30;

// Members of completion-result/v1 `artifacts`: {id, kind: "file", name, reference, mediaType: null,
// sha256|null, verified, reason?}.
json::Value artifacts(const workspace::Worktree& worktree, const workspace::Baseline& baseline,
                      const workspace::Evidence& evidence, int attempt_dirfd, const json::Value& envelope);

}  // namespace hitchrail::finish
