#pragma once
// No-follow file access below a trusted root descriptor, and the identity of what was opened.
//
// Promises: nothing below a root is reached through a link or through "..", never outside the root (openat2
// with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, or a walk of single components where
// the kernel lacks it); a FIFO, socket or device never blocks and is refused by type; reads are bounded. It
// authorises nothing: whose files these are and what may be done with them is the caller's business. Does not
// do yet: leases against a file that changes while it is read (callers compare identities and hashes).

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::pathfs {

enum class FileType { absent, regular, directory, symlink, other };

// Which file this is, not what it is called.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  FileType type = FileType::absent;
  mode_t mode = 0;  // permission bits
  std::uint64_t size = 0;
  [[nodiscard]] bool same_file(const Identity& other) const {
    return device == other.device && inode == other.inode && type != FileType::absent;
  }
  [[nodiscard]] std::string text() const;  // "device:inode"
};

Result<Identity> identify(int fd);
// The entry `name` of a directory, a link itself and not its target; type absent when there is none.
Result<Identity> identify_at(int dirfd, const std::string& name);

// Below a trusted root. `path` is relative, components joined by "/"; "", absolute paths and ".." give
// path-invalid. Codes: enoent, path-symlink (a link anywhere in the path), path-wrong-type (not a directory /
// not a regular file).
Result<Fd> open_directory_beneath(int root, const std::string& path);
Result<Fd> open_regular_beneath(int root, const std::string& path);  // read only, never blocks
Result<std::string> read_beneath(int root, const std::string& path, std::size_t max_bytes);
// The same kernel-or-walk resolution with the caller's flags (adds O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK).
Result<Fd> open_beneath(int root, const std::string& path, int flags, mode_t mode = 0);

// A directory named by the operator.
struct Resolved {
  Fd fd;             // O_RDONLY | O_DIRECTORY
  std::string path;  // canonical: absolute, without links, "." or ".."
  Identity identity;
};
// Links in the way are followed only when root or the caller owns them (code path-symlink otherwise); the
// last component may not be a link at all. Codes: enoent, path-symlink, path-wrong-type, eacces, path-loop.
Result<Resolved> resolve_directory(const std::string& path);

// True when `fd` is the directory `ancestor` or lies below it (by identity, upwards).
Result<bool> lies_within(int fd, const Identity& ancestor);

}  // namespace hitchrail::pathfs
