#pragma once
// The end of a run (program hitchrail-finish: descriptor 3 = the attempt directory). Every step is idempotent
// and each is durable before the next, so a finisher killed anywhere is completed by the next one:
//   1 give the reserve back, lock the journal   2 exit slot, verdict   3 evidence: changes, gates, import
//   4 terminal event, synced; its payload holds the whole result   5 completion.json, made from that event
//   6 database: projection and lease, one transaction   7 cleanup   8 the token, last
// Refuses: an attempt whose exit slot is not `ended` (attempt-not-ended). Works on a full disk: the attempt's
// reserve file is given back first; when even that does not suffice nothing is half-written and a later
// finisher goes on. A damaged journal gets no terminal event: the run is failed, code journal-damaged, and
// the file stays as it is.

#include <cstdint>
#include <functional>
#include <string>

#include "core/json.hpp"
#include "core/redact.hpp"
#include "core/result.hpp"

namespace hitchrail::finish {

enum class Step {
  begun,
  journal_locked,
  judged,
  gates,
  evidence,
  terminal_event,
  completion,
  database,
  cleaned,
  token_removed
};

// What the run left in the workspace: members of completion-result/v1 (changedFiles, sideEffects, evidence,
// …), blockers {code, summary, detail, retryable} that make a success partial, and whether git/ holds
// something not imported.
struct Workspace {
  json::Value members;
  json::Value blockers;
  bool keep_git = false;
  std::int64_t last_change_ms =
      0;  // when a changed file last changed; a check that began before says nothing
};

// Results of the verification gates (gates.hpp): `verification` and the items for `evidence`, both arrays.
struct Gates {
  json::Value verification = json::Value::array();
  json::Value evidence = json::Value::array();
};
struct GateCall {
  std::string skip;         // reason of `skipped` for all of them; "" = they are run
  std::uint64_t round = 0;  // how many gates finishers before this one began
  const SecretRedactor* redactor = nullptr;
  // Journals verification.started and verification.completed, durably.
  std::function<Status(const std::string& kind, const std::string& key, const std::string& summary,
                       const json::Value& fields)>
      record;
};

struct Options {
  // Runs the gates; called once by `workspace`, after it looked at what changed and before it imports.
  std::function<Gates(int attempt_dirfd, const json::Value& header, const GateCall& call)> gates;
  // Imports commits and says what changed. Must be idempotent. An error becomes the blocker
  // `workspace-evidence-failed` and keeps git/: it never stands in the way of the end.
  std::function<Result<Workspace>(int attempt_dirfd, const json::Value& header,
                                  const std::function<const Gates&()>& gates)>
      workspace;
  // Called after each step; tests end the process there.
  void (*after)(Step) = nullptr;
  const SecretRedactor* redactor = nullptr;  // over all that is written; not owned, may be null
  int journal_wait_ms = 30'000;              // for the last writer to leave
};

Status finish_attempt(int attempt_dirfd, const Options& options);

}  // namespace hitchrail::finish
