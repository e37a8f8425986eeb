#pragma once
// What the state at launch (`git-base/` of the attempt directory) says about the worktree it was taken from,
// for those who come after the run.

#include <string>

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

inline constexpr const char* launch_state_name = "launch.json";

std::string launch_state(const Worktree& worktree);
// Error worktree-changed when it was another worktree.
Status check_launch_state(int base_fd, const Worktree& worktree);
Error refused_change(const std::string& object, const std::string& detail);

}  // namespace hitchrail::workspace
