#pragma once
// Locks that git leaves behind when it is killed while it moves a branch: HEAD.lock and the branch's own.
// Left there, the operator's next commit would be refused.
//
// Promises: a lock is removed only when an import of this very attempt was killed while it moved a branch
// (the mark `ref-update` in the attempt directory says so), the lock is not older than the mark, and it stays
// unchanged for longer than a living git holds one. Everything else is left alone.

#include <string>

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

Status mark_ref_update(int attempt_dirfd);
void unmark_ref_update(int attempt_dirfd);
// `ref`: "refs/heads/main", or "HEAD". Nothing without a mark; the mark stays.
Status clear_stale_ref_locks(const Worktree& worktree, int attempt_dirfd, const std::string& ref);

}  // namespace hitchrail::workspace
