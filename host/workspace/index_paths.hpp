#pragma once
// The paths that an index file names, read without git: for looking at each of them, not for believing what
// the index says about them. Versions 2 to 4. Of a split index the caller reads both files; of an index with
// sparse directories these are named with their "/" at the end.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hitchrail::workspace {

struct IndexPath {
  std::string_view path;  // valid during the call
  std::uint32_t mode = 0;
  int stage = 0;
  bool assume_unchanged = false;
  bool skip_worktree = false;
};

// Calls `entry` for each in the order of the file. False: damaged, or of a version that is not known; what
// was called until then stands. `shared`: the oid of the base of a split index as raw bytes, else "".
bool each_index_path(std::string_view index, std::size_t oid_size, std::string& shared,
                     const std::function<void(const IndexPath&)>& entry);

}  // namespace hitchrail::workspace
