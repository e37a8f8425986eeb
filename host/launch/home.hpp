#pragma once
// The conversation's home on the host's side, before the harness exists: our configuration files, the mount
// point of the login file, and the carried session files of a resume. Every write is below descriptors of the
// attempt directory, no link followed.

#include "core/result.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

Status fill_home(int home_dirfd, const PlanStage& plan, const BoundaryStage& boundary,
                 const ProfileStage& profile, const WorktreeStage& worktree);
// Gives a whole run directory to the uid the harness runs as; no link followed, one file system.
Status give_tree(int dirfd, std::uint32_t uid, std::uint32_t gid);

}  // namespace hitchrail::launch
