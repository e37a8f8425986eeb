#pragma once
// What a gate's command must be to be a check at all.

#include <algorithm>
#include <string>
#include <vector>

namespace hitchrail::manifest {

// `/usr/bin/env -- ARGV` starts a program. Without one, after any NAME=VALUE, env prints its environment and
// exits 0, and so it does for "-": a check that would pass whatever the agent did.
inline bool names_program(const std::vector<std::string>& argv) {
  const auto program = std::find_if(
      argv.begin(), argv.end(), [](const std::string& word) { return word.find('=') == std::string::npos; });
  return program != argv.end() && !program->empty() && !program->starts_with('-') &&
         !argv.front().starts_with('-');
}

}  // namespace hitchrail::manifest
