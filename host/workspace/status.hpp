#pragma once
// `git status --porcelain=v2 -z` as values, and the content hashes of the files it names.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

struct StatusOutput {
  std::string head_oid;          // "" on an unborn branch
  std::vector<FileState> files;  // sorted by path; hashes of the worktree not yet filled in
};

std::vector<std::string> status_arguments();
// Code git-output-invalid.
Result<StatusOutput> parse_status(std::string_view output);
// Fills worktree_sha256, worktree_mode and stamp, by descriptors, following no link, until `budget` bytes are
// used up. A file over the rest of the budget keeps an empty hash. Of a submodule the hash is that of the id
// its HEAD has. `then`: a file whose stamp is the one it had takes that one's hash and is not read again.
using FilesByPath = std::map<std::string_view, const FileState*>;
void hash_files(const Worktree& worktree, std::vector<FileState>& files, std::uint64_t budget,
                const FilesByPath* then = nullptr);

// After a time-out: the first FIFO, socket or device in a place where git opens a file by name; "" when there
// is none within the bound.
std::string find_blocking_entry(int root_fd);

}  // namespace hitchrail::workspace
