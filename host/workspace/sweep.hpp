#pragma once
// Did anything move? One look at each file that the index or a list names and at each directory above them,
// by descriptors, without git.
//
// What counts is the change time of an inode: the kernel sets it, and no program without privileges sets it
// back. A new, removed or renamed entry changes its directory's. Not seen: what comes into an untracked
// directory that had no files. Where another machine keeps the time (a network file system), the times of
// one look are compared with those of another, never with this machine's clock alone.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

class PathSet {
 public:
  // Relative to the top level. Paths with the same folder one after the other cost least.
  void add(std::string_view path);
  // Every tracked path of `git_fd`'s index. False: no index that can be read here.
  bool add_index(int git_fd, std::size_t oid_size);
  void close();  // folders complete, sorted; before look()

  struct Folder {
    std::string path;  // "" = the top level
    std::vector<std::string> names;
  };
  [[nodiscard]] const std::vector<Folder>& folders() const { return folders_; }

 private:
  std::vector<Folder> folders_;
};

struct Sweep {
  std::uint64_t digest = 0;    // over inode and change time of all
  std::int64_t newest_ns = 0;  // the newest change time
  bool operator==(const Sweep&) const = default;
};
Sweep look(int root_fd, const PathSet& paths);
std::size_t oid_bytes(const Worktree& worktree);  // of a raw object id
// The kernel's clock for change times.
std::int64_t change_clock_ns();

// Tracked files whose inode changed at or after `since_ns`, as the index of `index_fd` names them.
struct TouchedFile {
  std::string path;
  pathfs::FileType type = pathfs::FileType::regular;
  bool assumed = false;  // the operator told git to assume it unchanged, or not to look for it
};
Result<std::vector<TouchedFile>> touched_since(const Worktree& worktree, int index_fd, std::int64_t since_ns);
// Does that index name it?
Result<bool> is_tracked(const Worktree& worktree, int index_fd, const std::string& path);
// The id git gives these bytes.
std::string blob_oid(std::string_view bytes, std::string_view object_format);

// The identity of the files that say where HEAD, index and refs stand.
struct Metadata {
  Head head;
  pathfs::Identity index;
  std::uint64_t refs = 0;   // digest
  bool other_refs = false;  // one that points elsewhere than HEAD, or another worktree with a HEAD of its own
  [[nodiscard]] bool same(const Metadata& other) const;
};
Result<Metadata> read_metadata_state(const Worktree& worktree);

class Stillness {
 public:
  PathSet paths;
  Metadata metadata;
  Sweep sweep;
  bool usable = false;  // false: every question goes to git
};

}  // namespace hitchrail::workspace
