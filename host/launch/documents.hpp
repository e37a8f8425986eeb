#pragma once
// The documents of an attempt, as they lie below its `manifests/`: the contract documents, and beside them
// everything that a digest in one of them was made of, so that an auditor can make each digest again with
// public tools (docs/operators/audit.md). No secret is in them; task text and paths are, so they stay 0600.

#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

// Name and bytes. `egress.json` only with an egress gate, `gate-plan.json` only with verification gates.
Result<std::vector<std::pair<std::string, std::string>>> attempt_documents(const Prepared& prepared);

}  // namespace hitchrail::launch
