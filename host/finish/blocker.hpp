#pragma once
// One thing that stands between a claimed success and a success.

#include <string>

#include "core/json.hpp"

namespace hitchrail::finish {

// Appends {code, summary (at most 500 bytes), detail (at most 4096), retryable}.
void block(json::Value& blockers, std::string code, std::string summary, std::string detail, bool retryable);

}  // namespace hitchrail::finish
