#pragma once
// The workspace's part of an end: what changed, which commits were made, their import. Git runs in the
// inspector boundary.

#include "finish/finish.hpp"

namespace hitchrail::finish {

// Idempotent: an import that was done before comes to the same end.
Result<Workspace> workspace_step(int attempt_dirfd, const json::Value& header,
                                 const std::function<const Gates&()>& gates,
                                 const SecretRedactor* redactor = nullptr);

}  // namespace hitchrail::finish
