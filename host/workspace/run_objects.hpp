#pragma once
// The objects of a run, looked at through the launch's own git directory (`git-base/`) with the run's object
// directory beside the real one: no configuration, hook or ref that the run has written is read.

#include <string>
#include <vector>

#include "core/result.hpp"
#include "workspace/git_call.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

class RunObjects {
 public:
  RunObjects(const Worktree& worktree, const std::string& attempt_path, const GitRunner& git)
      : worktree_(worktree), base_(attempt_path + "/git-base"), private_(attempt_path + "/git"), git_(git) {}

  [[nodiscard]] const std::string& base_path() const { return base_; }
  [[nodiscard]] const std::string& private_path() const { return private_; }
  // Both directories and the real object stores.
  [[nodiscard]] std::vector<std::string> readable() const;
  // A call that sees the run's objects beside the real ones.
  [[nodiscard]] GitCall call(std::vector<std::string> args) const;

  // A link, FIFO or device in a place where git opens a file of an object directory by name; calls over it
  // would wait or go astray. Error worktree-metadata-unsafe.
  static Status check_layout(int private_fd);

  // False also when `descendant` is not a commit that can be read.
  Result<bool> is_ancestor(const std::string& ancestor, const std::string& descendant) const;
  // Puts `wants` (commits and blobs) and what they need into the real store, checked by git's fsck rules, and
  // proves that it is whole there. False: they are damaged, incomplete or too many. What is there already is
  // not brought again.
  Result<bool> bring(const std::vector<std::string>& wants, const std::string& have, int attempt_dirfd) const;

 private:
  Result<bool> complete(const std::string& revisions) const;
  Result<bool> transfer(const std::string& revisions, int attempt_dirfd) const;

  const Worktree& worktree_;
  std::string base_, private_;
  const GitRunner& git_;
};

}  // namespace hitchrail::workspace
