#pragma once
// completion-result/v1: how a run's end is judged and written down.
//
// Judging (resolve): the adapter's verdict is a claim; the host may lower it, never raise it. A requested
// stop makes it interrupted; a cause in the exit slot, an exit by signal or an unknown exit makes a success
// failed; no verdict and no cause is failed, code no-verdict. What a success must show besides is
// finish/judge.hpp's business; the rules of the document are completion_check.hpp's.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {

struct Verdict {       // payload of `run.verdict`
  std::string status;  // success, failed, blocked, interrupted, partial
  std::string code, summary, error;
  std::string continuation_kind, continuation_reference;
  json::Value details = {};  // what the adapter adds: claims, never evidence
};
// From a run.verdict payload; nullopt when `status` is not one of the five.
std::optional<Verdict> parse_verdict(const json::Value& payload);

struct Resolution {
  std::string status;         // success, failed, blocked, interrupted, partial
  std::string terminal_kind;  // run.completed, run.failed, run.interrupted
  std::string code, summary, error;
  std::string terminal_source;  // stream, process, operator-interruption
  bool lowered = false;         // the verdict claimed more
};
Resolution resolve(const std::optional<Verdict>& verdict, const wire::ExitSlot& slot);
// A success with blockers ({code, …} of the workspace or a gate) is partial.
Resolution with_blockers(Resolution resolution, const json::Value& blockers);
// A harness's text as a member of a canonical document: valid UTF-8, at most `limit` bytes, no U+007F.
std::string document_text(std::string_view text, std::size_t limit);

struct CompletionInput {
  json::Value header;  // header.json
  std::optional<Verdict> verdict;
  Resolution resolution;
  wire::ExitSlot slot{};
  std::uint64_t events = 0;        // before the terminal event
  json::Value workspace_evidence;  // members added by the import step, null when there was none
  // Of the evidence requirements those that the terminal record meets; null = terminal-state.
  json::Value terminal_requirements;
  json::Value blockers;  // array of {code, summary, detail, retryable}: they make a success partial
  std::int64_t completed_unix_ms = 0;
};
// Everything but the terminal event's place and the digest: this is the terminal event's payload member
// `completion`.
json::Value completion_body(const CompletionInput& input);
// Adds terminal{eventId, sequence, line} and the digest.
Result<json::Value> seal_completion(json::Value body, const std::string& event_id, std::uint64_t sequence,
                                    const std::string& line_hash);

}  // namespace hitchrail::attempt
