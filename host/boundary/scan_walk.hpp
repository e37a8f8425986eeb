#pragma once
// The walk of scan(): parallel, by descriptors, following nothing. Internal to the boundary service.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "boundary/preset.hpp"
#include "boundary/scan.hpp"
#include "core/fd.hpp"
#include "pathfs/raw.hpp"

namespace hitchrail::boundary {

// A file as it was found. Its name is at `name` in the directory's `names`, ended by NUL.
struct SeenFile {
  std::uint32_t name = 0;
  std::uint32_t links = 0;
  std::uint64_t ino = 0;
  std::int64_t ctime_ns = 0;
};
struct SeenDirectory {
  std::uint32_t root = 0;
  std::string path;  // below the root, "" the root itself
  Identity identity;
  std::int64_t ctime_ns = 0;  // 0: changed so shortly before it was listed that a later change may not show
  std::string names;
  std::vector<SeenFile> files;        // of writable roots: all that is neither directory nor link
  std::vector<std::uint32_t> others;  // offsets of names: subdirectories, nested `.git`, masked dotfiles
};
struct WalkRoot {
  Root root;
  bool writable = false;
  bool protects = false;  // the protected names at its top level have their own handling
};

struct Inode {
  std::uint64_t dev = 0, ino = 0;
  auto operator<=>(const Inode&) const = default;
};
struct Linked {  // an inode with several links
  std::uint64_t links = 0;
  std::uint64_t seen = 0;  // names found
  std::string first;       // path of one of them
};

struct WalkPlan {
  std::vector<WalkRoot> roots;
  std::unordered_set<std::string> stop;  // absolute paths neither entered nor reported: other roots, denied
  bool masking = false;
  std::size_t max_entries = 0;
  unsigned threads = 1;
};
struct Walked {
  std::vector<SeenDirectory> directories;
  std::map<Inode, Linked> linked;  // below writable roots
  std::vector<Root> sockets;       // below writable roots
  std::vector<Root> dotfiles;      // with masking
  std::vector<Root>
      nested_git;  // `.git` directories and files, and what git takes for a repository (is_repository)
  std::vector<std::string> bare_roots;  // writable roots that are such a one themselves
  std::vector<Root> odd_git;            // `.git` that is a link or something else
  std::vector<std::string> unreadable;
  std::vector<std::string> set_id;  // files below writable roots
  std::size_t entries = 0;
  bool over = false;  // more than max_entries: the rest is incomplete
};
// Errors: a root that cannot be opened or is another one than before (root-changed), and errno names.
Result<Walked> walk(const WalkPlan& plan);

// The git directories to be held, sorted, none below another: those of the walk, and those to which `.git`
// files (also the roots' own) and `commondir` files lead where the run may write.
struct HeldGit {
  std::vector<Root> held;
  std::vector<std::string> followed;  // of these, what the walk did not know as one
  std::vector<Error> refusals;
};
HeldGit held_git(const WalkPlan& plan, const Walked& walked, const std::vector<Root>& denied);

// Names by which git knows a directory, whatever its own name is, as a repository: HEAD, and either objects
// and refs or a commondir file. 0: another name.
enum GitPart : unsigned { git_head = 1, git_objects = 2, git_refs = 4, git_common = 8, git_own = 16 };
unsigned git_part(const char* name);
inline bool is_repository(unsigned parts) {
  constexpr unsigned both = git_objects | git_refs;
  return (parts & git_head) != 0 && ((parts & both) == both || (parts & git_common) != 0);
}

struct Stat {
  Identity identity;
  std::uint32_t mode = 0, links = 0, uid = 0, gid = 0;
  std::int64_t ctime_ns = 0;
};
// Follows no link and wakes nothing up; "" is the descriptor itself. False sets errno.
bool look(int directory, const char* name, Stat& out);
// The last component of an absolute path, itself and not what it links to; no link is followed on the way.
bool look_at(const std::string& path, Stat& out);
Root as_root(const std::string& path, const Stat& stat);

// A directory below a root by its relative path, nothing followed, however long the path is. Invalid sets
// errno.
Fd open_below(int root, const std::string& path, int flags);
Result<Fd> open_walk_root(const Root& root);

using pathfs::raw::list_names;
bool is_protected_name(const char* name);
// Of a masked place: a dotfile that git must read to know what not to add is left visible.
bool is_masked_name(const char* name, unsigned char type);
std::string joined_path(const std::string& directory, const char* name);

// What two looks must agree on, and what the first look found.
struct ScanMemory {
  Preset preset;
  Roots roots;
  ScanLimits limits;
  WalkPlan plan;
  std::vector<SeenDirectory> directories;
  std::vector<Root> granted;  // of every role: where mounts and known sockets matter
};
std::string mount_topology(const std::vector<Mount>& mounts, const std::vector<Root>& granted);
// The refusal when one of `sockets`, or a socket known to this network namespace, can be reached by the run.
std::optional<Error> listening(const ScanMemory& memory, const std::vector<Root>& masks,
                               std::vector<Root> sockets);
// Somebody is bound to the socket at this path (opened without following a link); nothing is sent.
bool somebody_listens(const Root& socket);
// Paths of bound sockets in this network namespace that lie lexically below one of the roots.
std::vector<Root> known_sockets(const std::vector<Root>& granted);

}  // namespace hitchrail::boundary
