#pragma once
// Looking below the granted roots, before compile() and (recheck.hpp) again right before activation: mounts,
// hard links, listening sockets, nested git directories, dotfiles.
//
// Promises: nothing is changed and no link is followed; no FIFO, device or socket is opened; names may be any
// bytes; everything is bounded. What a policy must refuse comes as a value (Scan::refusals), never as a
// weaker grant. recheck_scan() is sound: a file that got another link, a name that appeared and a mount that
// came or went since scan() is seen, and only directories whose ctime changed are listed again. Refuses:
//   hard-link-outside    a file that the run may write has a name where the run may not write
//   hard-link-protected  the same, and that name lies in something held read-only (a protected name, a store)
//   hard-link-limit      more entries below the roots than ScanLimits::max_entries
//   listening-socket     a socket that somebody is bound to lies where the run could connect to it
//   nested-mount         a file system is mounted below a root, and is neither a grant itself nor denied
//   nested-git-root      a writable root is itself a repository, or the common directory of one
//   nested-git-limit, dotfile-mask-limit   more to cover than one launch is allowed
//   set-id-inside        a file that the run may write is set-user-id or set-group-id
//   scan-unreadable      a directory that the run could make readable and this process cannot read
// and as errors: mounts-unreadable, errno names of a root. Does not see what other programs do after
// activation.
//
// What counts as where: a hard link is fine when all its names lie where the run may write, or below a
// dotfile that is masked. A package store that hard-links into the worktree (pnpm) is declared in
// Preset::stores as the linked folder *inside* the worktree (`<workspace>/node_modules/.pnpm`): it is mounted
// read-only, so its files cannot be written whatever other names they have. Git's own directory is not
// granted and not looked into, but for finding out where a missing name of a writable file is.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "boundary/roots.hpp"
#include "core/result.hpp"

namespace hitchrail::boundary {

struct Preset;

struct ScanLimits {
  std::size_t max_entries = 250'000;
  std::size_t max_masks = 2'048;
  std::size_t max_mask_bytes = 1u << 20;  // of their paths together
  std::size_t max_nested_git = 256;
  unsigned threads = 0;  // 0: one a processor, at most 8
};

// One line of mountinfo. The mount point is decoded; a mount that no path reaches any more is left out.
struct Mount {
  std::uint64_t id = 0;
  std::string device;  // "8:1"
  std::string root;    // of the file system, as the kernel writes it
  std::string point;
};
Result<std::vector<Mount>> parse_mounts(std::string_view mountinfo);  // code mounts-unreadable
Result<std::vector<Mount>> read_mounts();

struct ScanMemory;
struct Scan {
  std::vector<Error> refusals;  // kind refused, the worst first; empty: nothing stands in the way
  std::vector<Root> masks;  // every dot entry to be covered when the preset masks dotfiles, sorted by path
  // Every git directory below the top level of a writable root, sorted by path, none below another: `.git`,
  // what git takes for a repository whatever its name is, and where `.git` files (the top level's, too) and
  // `commondir` files lead.
  std::vector<Root> nested_git;
  std::string topology;                      // sha256: over the mounts below the roots
  std::size_t entries = 0;                   // looked at
  std::shared_ptr<const ScanMemory> memory;  // what recheck_scan() compares with
};
// Roots as compile() gets them, preset paths already resolved into them.
Result<Scan> scan(const Preset& preset, const Roots& roots, const ScanLimits& limits = {});

// The second look. Codes: mounts-changed, root-changed, hard-link-*, listening-socket, nested-git-appeared,
// nested-git-changed, dotfile-appeared, dotfile-changed, scan-unreadable, set-id-inside, hard-link-limit.
Status recheck_scan(const Scan& scan);
// The mounts alone: code mounts-changed.
Status recheck_mounts(const Scan& scan);

}  // namespace hitchrail::boundary
