#pragma once
// The judgement: what a run claims, held against what was found. Pure: documents in, documents out.
//
// Promises: only a claimed success is held against the envelope, and it can only become `partial`, with one
// blocker {code, summary, detail, retryable} for each thing that is missing:
//   required-commit-missing, forbidden-commit-created (retryable: yes, no), unauthorized-KIND (no): not
//   allowed, or outside every allowed scope, changed-files-truncated (yes),
//   verification-missing-GATE (yes): a required gate without a passed result, or one older than the last
//   change, expected-output-missing-ID (yes), evidence-missing-ID (yes), provider-CODE (what the provider
//   itself says stands in the way)
// How a required output is met, by kind:
//   file, artifact   a verified artifact of the same id: a regular file at its path that this run changed;
//                    without a path a passed gate of the same id
//   commit           a commit that is this run's (required-commit-missing says it where the policy asks for
//   one) text             `completion-summary` is the final message, whatever it says; another one with a
//   path is a
//                    file; without a path a final message that is not empty, or a passed gate of the same id:
//                    nobody judges what a text says
//   other            with a path a file, else a passed gate of the same id: what the host cannot see it does
//   not
//                    take on trust
// A requirement of evidence is met by verified evidence of its kind that names it. What the provider says in
// its verdict (`details`: evidence, artifacts, verification, blockers) is kept under ids that begin with
// `provider-`, never verified, and raises nothing.

#include <cstdint>
#include <optional>

#include "attempt/completion.hpp"
#include "core/json.hpp"
#include "finish/finish.hpp"
#include "shim/wire.hpp"

namespace hitchrail::finish {

struct JudgeInput {
  const json::Value& envelope;  // null when it cannot be read
  const std::optional<attempt::Verdict>& verdict;
  const attempt::Resolution& claimed;
  const wire::ExitSlot& slot;
  std::uint64_t events = 0;
};
// Completes `found`: members artifacts, verification, evidence; blockers. Returns the ids of the requirements
// that the provider's terminal record meets (terminal-state always).
json::Value judge(const JudgeInput& in, Workspace& found);

}  // namespace hitchrail::finish
