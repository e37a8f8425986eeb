#pragma once
// The parts of a managed worktree outside the state home, each made and removed by one function: its
// directory, its registration in the common git directory, its branch. Internal to workspace/.

#include <optional>
#include <string>

#include "workspace/worktree_manifest.hpp"

namespace hitchrail::workspace {

struct Parent {  // of a worktree's path
  pathfs::Resolved directory;
  std::string name;
};
Result<Parent> open_parent_of(const std::string& path);

std::string aside_name(const std::string& id);     // while it is made
std::string removing_name(const std::string& id);  // while it is removed

// What stands at the manifest's path.
enum class Standing { absent, ours, foreign };
Result<Standing> standing(const WorktreeManifest& manifest);
// The files, wherever they are by now (path, aside, being removed): moved aside by identity, then removed
// without following a link. What is not ours stays. Success when nothing is left.
Status remove_files(const WorktreeManifest& manifest);

// The common git directory, when it is the one that was recorded.
Result<pathfs::Resolved> open_common(const WorktreeManifest& manifest);
// HEAD, commondir, gitdir and index, `locked` until it is complete. Code worktree-registration-exists.
struct Registration {
  std::string head, index;  // index: bytes
};
Status write_registration(const WorktreeManifest& manifest, const Worktree& source,
                          const Registration& registration);
enum class Registered { absent, ours, foreign };
Result<Registered> registered(const WorktreeManifest& manifest, const pathfs::Resolved& common);
Status remove_registration(const WorktreeManifest& manifest);
// git's own lock of a worktree: a hold of the operator's. "" = none; else its reason or "locked".
Result<std::string> held_by_operator(const WorktreeManifest& manifest);

// Code branch-exists when something has the name.
Status make_branch(const WorktreeManifest& manifest, const Worktree& source, const GitRunner& git);
// Only while it still is where it began and was made by us; false: it stays.
Result<bool> remove_branch(const WorktreeManifest& manifest, const GitRunner& git);

}  // namespace hitchrail::workspace
