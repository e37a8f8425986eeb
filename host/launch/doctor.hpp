#pragma once
// Preflight: what of this machine and installation would stop a run, why it matters, and the command that
// mends it. Starts no run; provider programs run only in the probe boundary, the endpoint check opens one TCP
// connection to each provider host (3 s in all). Reading only: a state home that does not exist is not made.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "launch/installation.hpp"

namespace hitchrail::launch {

enum class Level { ok, warning, blocking };
const char* level_name(Level level);

struct Check {
  std::string id;  // "kernel", "codex-cli.version"
  Level level = Level::ok;
  std::string what, why, fix;
};

// `agent` "" = every profile; then a harness that is not installed is a warning, not a block.
Result<std::vector<Check>> examine(const ExtraDirs& dirs, const std::string& agent);

}  // namespace hitchrail::launch
