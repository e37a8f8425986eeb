#pragma once
// Asking on a terminal, once, whether a harness may read what a repository holds for it.

#include "cli/options.hpp"
#include "core/result.hpp"

namespace hitchrail::cli {

// True when somebody said yes and that was written down: the launch may be tried again. Asks only where both
// standard input and error are a terminal, and only what a decision would help with; `refusal` is the
// launch's.
Result<bool> ask_for_trust(const RunOptions& options, const Error& refusal);

}  // namespace hitchrail::cli
