#pragma once
// HEAD and refs of a git directory, read by descriptors: no link followed, nothing blocks, everything
// bounded. Used for the operator's repository and, after the run, for the private directory that the run has
// written.

#include <map>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

struct RefTable {
  std::map<std::string, std::string> oids;      // "refs/heads/main" -> hex
  std::map<std::string, std::string> symbolic;  // "refs/remotes/origin/HEAD" -> "refs/remotes/origin/main"
};

bool valid_oid(std::string_view text, std::string_view object_format);
// git check-ref-format, and below "refs/".
bool valid_ref(std::string_view name);

// Codes worktree-metadata-unsafe, worktree-too-large. `git_fd`: this worktree's own directory; `common_fd`:
// where refs/ are.
Result<Head> read_head(int git_fd, int common_fd, std::string_view object_format);
// "" when the ref does not exist.
Result<std::string> read_ref(int common_fd, const std::string& ref, std::string_view object_format);
Result<RefTable> read_refs(int common_fd, std::string_view object_format);
// The text of a packed-refs file with these refs.
std::string packed_refs(const RefTable& refs);

// An entry of a git directory that must be a regular file or a directory, or be missing.
enum class MetadataKind { file, directory };
Status check_metadata(int dirfd, const std::string& path, MetadataKind kind);
// "" when missing.
Result<std::string> read_metadata(int dirfd, const std::string& path, std::size_t max_bytes);
Error metadata_unsafe(std::string object, std::string detail);

}  // namespace hitchrail::workspace
