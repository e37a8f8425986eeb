#pragma once
// Recovery of an attempt whose shim or launcher is gone, under the attempt's lock: what is left of its
// processes is ended by identity, the exit slot gets the truth (an exit known to the slot is kept, else
// unknown, source shim-lost), and the finisher runs. Idempotent; a live or finished attempt is left alone.
// Used by `run`, `runs stop` and `runs recover`. Without a pid namespace a grandchild that left the leader
// cannot be found after the shim's death; that is said in `detail`.

#include <string>

#include "attempt/attempt.hpp"

namespace hitchrail::attempt {

struct Recovery {
  bool acted = false;    // false: live, terminal, or another process is recovering it
  AttemptStatus status;  // afterwards
};
// finish_program: descriptor of hitchrail-finish. Errors: attempt-locked, recover-tree-alive,
// recover-supervised, finish-failed.
Result<Recovery> recover(const Directory& directory, int finish_program);

// Runs the finisher on an attempt and waits for it. Exit status 0 or error finish-failed.
Status run_finisher(const Directory& directory, int finish_program);

}  // namespace hitchrail::attempt
