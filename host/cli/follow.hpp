#pragma once
// Watching a run's journal: the live view of `run` on a terminal, lines elsewhere, JSON lines with --json.
// Reads only; a killed or closed watcher leaves the run alive.

#include <cstdint>

#include "attempt/attempt.hpp"
#include "core/result.hpp"

namespace hitchrail::cli {

struct FollowOptions {
  bool json = false;
  bool follow = true;
  bool interactive =
      false;  // Ctrl-C stops the run (once: gracefully, twice: at once); a live line on a terminal
  std::uint64_t after = 0;
};
// From now on Ctrl-C is counted instead of ending this process; an interactive follow() acts on what came
// since.
void hold_interrupts();
// Returns at the terminal event, at the present end without `follow`, or when nothing lives that could write
// more (error run-needs-recovery).
Status follow(const attempt::Directory& directory, const FollowOptions& options);

// The terminal event is durable a moment before completion result, lease and cleanup are: waits for those.
// Returns at `limit` too: then the finisher is still at work, or any later command completes it.
Result<attempt::AttemptStatus> wait_finished(const attempt::Directory& directory, std::int64_t limit_ms);

}  // namespace hitchrail::cli
