#pragma once
// From a command line to a launch::Request: reads the task file, splits provider options. Writes nothing.

#include "cli/options.hpp"
#include "core/result.hpp"
#include "launch/launch.hpp"

namespace hitchrail::cli {

Result<launch::Request> launch_request(const RunOptions& options);

}  // namespace hitchrail::cli
