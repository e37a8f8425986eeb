#pragma once
// The end of a run (program hitchrail-finish: descriptor 3 = the attempt directory). Every step is idempotent
// and each is durable before the next, so a finisher killed anywhere is completed by the next one:
//   1 lock the journal   2 exit slot, verdict   3 evidence (import of commits)   4 terminal event, synced
//   5 completion.json    6 database: projection and lease, one transaction   7 cleanup, token last
// Refuses: an attempt whose exit slot is not `ended` (attempt-not-ended). Works on a full disk: the attempt's
// reserve file is given back first; when even that does not suffice nothing is half-written and a later
// finisher goes on.

#include <functional>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::finish {

enum class Step {
  begun,
  journal_locked,
  judged,
  evidence,
  terminal_event,
  completion,
  database,
  cleaned,
  token_removed
};

struct Options {
  // Evidence of the workspace: imports commits and says what changed; members become part of
  // completion-result/v1. Must be idempotent.
  std::function<Result<json::Value>(int attempt_dirfd, const json::Value& header)> workspace;
  // Called after each step; tests end the process there.
  void (*after)(Step) = nullptr;
};

Status finish_attempt(int attempt_dirfd, const Options& options);

}  // namespace hitchrail::finish
