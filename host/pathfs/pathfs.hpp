#pragma once
// No-follow file access below a trusted root descriptor: the only primitive with which the host touches a
// workspace. Here: opening, reading, looking; walk.hpp finds, edit.hpp changes, patch.hpp changes many as
// one, snapshot.hpp takes back.
//
// Promises: nothing below a root is reached through a link, through ".." or through a magic link, never
// outside the root (openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, EAGAIN tried
// again a bounded number of times; a walk of single components where the kernel lacks the call); a FIFO,
// socket or device never blocks and is refused by type; every read is bounded; errors are the closed set of
// codes.hpp. It authorises nothing: whose files these are and what may be done with them is the caller's
// business. Refuses: paths that are not plain components joined by single "/".
// Does not do: hold a file still while it is read (read_stable says when it changed); protect from a file
// system that does not answer (a dead network mount).

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "pathfs/codes.hpp"

namespace hitchrail::pathfs {

enum class FileType { absent, regular, directory, symlink, other };

// Which file this is, not what it is called, and how it stood when it was looked at.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  FileType type = FileType::absent;
  mode_t mode = 0;  // permission bits
  std::uint64_t size = 0;
  std::uint64_t links = 0;
  std::int64_t modified_ns = 0;  // mtime, since the epoch
  std::int64_t changed_ns = 0;   // ctime
  [[nodiscard]] bool same_file(const Identity& other) const {
    return device == other.device && inode == other.inode && type != FileType::absent;
  }
  // The same file, and neither written, resized nor otherwise changed in between.
  [[nodiscard]] bool unchanged(const Identity& other) const {
    return same_file(other) && size == other.size && modified_ns == other.modified_ns &&
           changed_ns == other.changed_ns;
  }
  [[nodiscard]] std::string text() const;  // "device:inode"
};

Result<Identity> identify(int fd);
// The entry `name` (one component) of a directory, a link itself and not its target; type absent when there
// is none.
Result<Identity> identify_at(int dirfd, const std::string& name);

// ---- below a trusted root: `path` is relative, plain components joined by single "/"
Result<Identity> identify_beneath(int root, const std::string& path);  // a link at the end is reported as one
Result<Fd> open_directory_beneath(int root, const std::string& path);
Result<Fd> open_regular_beneath(int root, const std::string& path);  // read only, never blocks
Result<std::string> read_beneath(int root, const std::string& path, std::size_t max_bytes);
Result<std::string> read_link_beneath(int root, const std::string& path);  // the text; io/einval: no link
// The same kernel-or-walk resolution with the caller's flags (adds O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK). With
// O_PATH a link at the end is opened itself.
Result<Fd> open_beneath(int root, const std::string& path, int flags, mode_t mode = 0);

// Content and the identity it had, size and times the same before and after; a file that keeps changing is
// io/estale. Stores through a mapping change no time and are not seen.
struct Content {
  std::string bytes;
  Identity identity;
};
Result<Content> read_stable_beneath(int root, const std::string& path, std::size_t max_bytes);

// Names without "." and "..", sorted; more than `max_names` is walk-limit.
inline constexpr std::size_t max_listed_names = 1'000'000;
Result<std::vector<std::string>> list_directory(int dirfd, std::size_t max_names = max_listed_names);

// ---- by absolute path
// An absolute path of plain components, none of them a link, the last included.
Result<Fd> open_absolute(const std::string& path, int flags);

// A directory named by the operator.
struct Resolved {
  Fd fd;             // O_RDONLY | O_DIRECTORY
  std::string path;  // canonical: absolute, without links, "." or ".."
  Identity identity;
};
// Links in the way are followed only when root or the caller owns them (symlink-rejected otherwise, as for
// links in a circle); the last component may not be a link at all.
Result<Resolved> resolve_directory(const std::string& path);

// True when `fd` is the directory `ancestor` or lies below it (by identity, upwards).
Result<bool> lies_within(int fd, const Identity& ancestor);
// The directory above an open one; of "/" it is "/" itself.
Result<Fd> open_parent(int fd);

}  // namespace hitchrail::pathfs
