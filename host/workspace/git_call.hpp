#pragma once
// What every git call of this service has in common: an environment in which no configuration but the
// repository's own is read, and that switches off everything a repository can plant and git can be told to
// leave; the rest runs in the boundary.

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "workspace/git_runner.hpp"

namespace hitchrail::workspace {

// A call with GIT_DIR and GIT_WORK_TREE set; the caller adds arguments and what else is readable.
GitCall git_call(const std::string& git_dir, const std::string& worktree);
// Runs it. git-timeout, git-output (more than max_output) and git-failed (ended by a signal) become errors;
// exit codes are the caller's.
Result<GitOutcome> run_git(const GitRunner& git, const GitCall& call);
// For calls that must exit 0.
Result<std::string> git_output(const GitRunner& git, const GitCall& call);
// Did git look at what a run or a repository holds, and refuse it or get stuck over it? Anything else is a
// failure of ours or of the machine, and can be tried again.
bool is_answer_of_git(const Error& error);
Error git_failed(const GitCall& call, const GitOutcome& outcome);

// A path as git reads it in objects/info/alternates and GIT_ALTERNATE_OBJECT_DIRECTORIES.
std::string quote_path(std::string_view path);
std::string empty_tree(std::string_view object_format);
std::string zero_oid(std::string_view object_format);

// The next field of NUL-separated output; false at the end.
bool next_field(std::string_view& rest, std::string_view& field);

}  // namespace hitchrail::workspace
