#pragma once
// Verification gates: the operator's checks, run by the finisher when nothing of the run lives any more and
// before anything of it reaches the repository.
//
// Promises: a gate is run by `/usr/bin/env -- ARGV` (never a shell) in a boundary of its own, from the run's
// policy as it was kept at launch (gate plan below): no network, no credential, no home of the conversation,
// no other process; git shows the launch's state and nothing of the run's own git directory
// (workspace/gate_git.hpp); what it writes into the worktree lands in a layer that is thrown away, or, where
// no overlay can be had, nowhere (the result says which). Time, output, processes and memory are bounded; all
// of it dies with the finisher. Whatever goes wrong with a gate is that gate's result, never an error of the
// finish. Run again by the next finisher as long as no terminal event is written. Refuses: a gate plan whose
// bytes are not those of the launch (reason gate-plan-changed: nothing is run).
//
// The gate plan, manifests/gate-plan.json, 0600, canonical with its `digest`; header.json has
// `gatePlanDigest` and `gatesTimeoutMs` (what a later host must give the finisher), neither when the task has
// no gates:
//   {schemaVersion: "gate-plan/v1", totalTimeoutMs, maxOutputBytes, boundary: {…}
//   (boundary/verification.hpp),
//    gates: [{id, required, evidenceRequired, command?: {argv: [], timeoutMs}}]}, digest}
//
// A result, element of the completion result's `verification[]` in the order of the plan:
//   {gateId, status: passed | failed | skipped, summary, evidenceIds: ["verification-GATE"] or [], reason?,
//    required, evidenceRequired, and of a gate that was run: startedAt, completedAt, durationMs, exitCode?,
//    signal?, worktree: "throw-away" | "read-only", output: {sha256, bytes, truncated, reference?, tail}}
//   reason of failed: exit-code, signal, timeout, output-limit, gate-plan-changed, gate-boundary-changed,
//     gate-not-started (with the boundary's own code in the summary)
//   reason of skipped: no-command, stopped, time-budget, run-not-successful, evidence-failed
// `output` is about what was kept: the program's stdout and stderr in the order they came, known secrets
// redacted; its bytes lie in `reference` ("gates/N.out", 0600) of the attempt directory.
// And for each gate that was run one evidence item {id: "verification-GATE", kind: "verification", source:
// "harness", verified: true, requirementIds: ["verification"] when it passed, reference, sha256, startedAt}.

#include "finish/finish.hpp"

namespace hitchrail::finish {

inline constexpr std::uint64_t default_gate_ms = 600'000;
inline constexpr std::uint64_t default_gates_ms = 1'800'000;  // all of an attempt together
inline constexpr std::uint64_t max_gate_output = 8u << 20;

inline constexpr const char* gate_outputs = "gates";  // folder of the attempt directory

// For Options::gates. Ends what it runs and skips the rest when gates_stopped() becomes true.
Gates run_gates(int attempt_dirfd, const json::Value& header, const GateCall& call);

void stop_gates();  // may be called by a signal handler
bool gates_stopped();

}  // namespace hitchrail::finish
