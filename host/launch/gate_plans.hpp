#pragma once
// The gate plan: everything the finisher needs to run the task's verification gates when the run is over
// (format: finish/gates.hpp). Made of the envelope's gates and of the boundary as it was compiled for the
// run.
//
// Promises: looks, changes nothing; no plan when the task has no gates. A gate whose boundary cannot be had
// here, as far as that can be known before the run, is the blocker `gate-boundary-unavailable` when one of
// the gates with a command is required, else a warning; that gates will see the worktree read-only is the
// warning `gates-read-only`.

#include "launch/stages.hpp"

namespace hitchrail::launch {

struct GatePlan {
  json::Value document;         // sealed; null: no gates
  std::uint64_t total_ms = 0;   // of all gates together
  std::vector<Error> blockers;  // with the remedy
  std::vector<boundary::Warning> warnings;
};
Result<GatePlan> plan_gates(const json::Value& envelope, const boundary::Compiled& compiled,
                            const boundary::Machine& machine, const boundary::RunDirectories& planned,
                            std::uint64_t total_ms);

}  // namespace hitchrail::launch
