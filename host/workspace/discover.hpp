#pragma once
// Finding the repository of a directory the way git does, without git and without its trust: a git directory
// outside the worktree must point back at it.

#include <string>

#include "core/result.hpp"
#include "workspace/git_config.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

struct Found {
  pathfs::Resolved root;     // top level of the worktree
  std::string subdirectory;  // of the start below it
  pathfs::Resolved git_dir;
  pathfs::Resolved common_dir;  // the same directory as git_dir unless linked
  WorktreeKind kind = WorktreeKind::plain;
};

Result<Found> discover(pathfs::Resolved start);
// config of the common directory, then config.worktree where extensions.worktreeConfig is on.
Result<GitConfig> read_config(const Found& found);
// That a plain repository or submodule belongs to its root by core.worktree, and is not bare.
Status check_belongs(const Found& found, const GitConfig& config);

Error refused(const char* code, std::string object, std::string detail, std::string remedy);

}  // namespace hitchrail::workspace
