#include <algorithm>

#include "core/ids.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"
#include "workspace/status.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr int kAttempts = 3;

Error named_after_timeout(const Worktree& worktree, const Error& error) {
  if (error.code != "git-timeout") {
    return error;
  }
  const std::string entry = find_blocking_entry(worktree.root_fd->get());
  if (entry.empty()) {
    return error;
  }
  return Error{ErrorClass::refused,
               "worktree-unsafe-entry",
               "capture baseline",
               worktree.root + "/" + entry,
               "it is a FIFO, a socket or a device, and git waits on it for ever",
               "remove it"};
}

Result<StatusOutput> status_now(const Worktree& worktree, const GitRunner& git,
                                const BaselineLimits& limits) {
  GitCall call = git_call(worktree.git_dir, worktree.root);
  call.args = status_arguments();
  call.readable = worktree.object_stores;
  call.readable.push_back(worktree.common_dir);
  if (worktree.git_dir != worktree.common_dir) {
    call.readable.push_back(worktree.git_dir);
  }
  call.timeout = limits.timeout;
  auto output = git_output(git, call);
  if (output.has_error()) {
    return named_after_timeout(worktree, output.error());
  }
  HR_TRY(status, parse_status(output.value()));
  if (status.files.size() > limits.max_files) {
    return Error{ErrorClass::refused,
                 "baseline-too-many-changes",
                 "capture baseline",
                 worktree.root,
                 std::to_string(status.files.size()) + " changed or untracked files, at most " +
                     std::to_string(limits.max_files) + " can be told apart from the run's own",
                 "commit them, or name generated files in .gitignore"};
  }
  return status;
}

std::string short_name(const std::string& ref) {
  constexpr std::string_view kHeads = "refs/heads/";
  return ref.starts_with(kHeads) ? ref.substr(kHeads.size()) : ref;
}

}  // namespace

Result<Baseline> capture_baseline(const Worktree& worktree, const GitRunner& git,
                                  const BaselineLimits& limits) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HR_TRY(before, read_head(worktree));
    HR_TRY(status, status_now(worktree, git, limits));
    hash_files(worktree.root_fd->get(), status.files, limits.max_hash_bytes);
    // A clean worktree has nothing that could differ between two looks but HEAD, which is compared below.
    if (!status.files.empty()) {
      HR_TRY(again, status_now(worktree, git, limits));
      hash_files(worktree.root_fd->get(), again.files, limits.max_hash_bytes);
      if (again.files != status.files || again.head_oid != status.head_oid) {
        continue;
      }
    }
    HR_TRY(after, read_head(worktree));
    if (before != after || status.head_oid != before.oid) {
      continue;
    }
    Baseline out;
    out.captured_at_ms = unix_millis_now();
    out.head = std::move(after);
    out.branch = out.head.ref.empty() ? "" : short_name(out.head.ref);
    out.dirty = !status.files.empty();
    out.files = std::move(status.files);
    return out;
  }
  return Error{
      ErrorClass::refused,
      "baseline-unstable",
      "capture baseline",
      worktree.root,
      "the worktree changed during each of " + std::to_string(kAttempts) + " attempts to read its state",
      "wait until nothing else works in it"};
}

}  // namespace hitchrail::workspace
