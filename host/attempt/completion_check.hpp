#pragma once
// The rules of completion-result/v1, in one place: the finisher holds its own result against them, and so can
// anybody who reads one.
//
// Any result: the known statuses and evidence kinds, the bounds of every list, unique evidence ids, evidence
// and artifacts of a provider unverified and named `provider-…`. success: no error, no blocker, at least one
// verified evidence, no required check that has not passed. partial, blocked: a blocker. failed: an error.
// With the envelope: its digest and task; a success meets every required evidence requirement by verified
// evidence of its kind that names it, and every required gate is passed, with verified evidence where the
// gate asks for it. A check that is not required may have failed.

#include <array>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::attempt {

inline constexpr std::array<std::string_view, 9> evidence_kinds{
    "provider-output", "process-exit", "stream-event", "callback", "verification",
    "file-change",     "artifact",     "commit",       "other"};

// `envelope` may be null. Code completion-invalid; object = the member.
Status check_completion(const json::Value& completion, const json::Value& envelope);

}  // namespace hitchrail::attempt
