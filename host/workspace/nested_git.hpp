#pragma once
// Git directories below the top level of a worktree that a run made or changed. Git descends into them at the
// operator's next `git status`, and what their configuration names would then run outside any boundary; the
// boundary holds those that are there at the launch, not what the run makes itself. And the names of dotfiles
// that the run made, since no mask of the boundary covers what comes later.
//
// The change time of an inode is the kernel's: a run cannot set it back. No link is followed; at most 250,000
// entries and 256 levels are looked at.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::workspace {

struct NestedGit {
  std::vector<std::string>
      changed;  // paths of `.git` entries and repositories of other names, relative, sorted; at most 64
  // Entries whose name begins with a dot and that were made, renamed or written to, without those that the
  // boundary holds; sorted, at most 64 of dot_count.
  std::vector<std::string> dot_names;
  std::size_t dot_count = 0;
  // FIFOs, sockets and devices where git opens a file by name and would wait for ever; at most 64.
  std::vector<std::string> blocking;
  bool complete = true;  // false: over a bound, or a directory could not be read
};
// What is newer than `since_unix_ms` at or in a nested `.git`: the entry itself, its config files and its
// hooks.
Result<NestedGit> changed_nested_git(int worktree_root, std::int64_t since_unix_ms);

}  // namespace hitchrail::workspace
