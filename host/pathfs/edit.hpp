#pragma once
// Single changes below a trusted root. The way to an entry is free of links, and the entry that is changed is
// the one that was judged: through its descriptor, or by its name in an open directory, where the kernel
// follows nothing. A link at the end is refused where it would have to be followed (write, chmod) and moved
// or removed as the link it is elsewhere.
//
// Leaves behind, when killed in the middle of a write, at most one file whose name starts with
// temporary_prefix.

#include <optional>
#include <string>
#include <string_view>

#include "pathfs/pathfs.hpp"

namespace hitchrail::pathfs {

inline constexpr std::string_view temporary_prefix = ".hitchrail-tmp-";

struct Owner {
  uid_t uid;
  gid_t gid;
};

struct WriteOptions {
  bool replace = true;         // false: io/eexist when anything has the name
  std::optional<mode_t> mode;  // default: the replaced file's, 0644 for a new one
  std::optional<Owner> owner;  // default: the replaced file's where we may, ours for a new one
  bool sync = true;            // content and directory on disk before success
};
// The whole file at once: readers see the old or the new content. Replaces only a regular file.
Result<Identity> write_beneath(int root, const std::string& path, std::string_view bytes,
                               const WriteOptions& options = {});

struct DirectoryOptions {
  mode_t mode = 0755;
  bool parents = false;        // make what is missing on the way; then the directory itself may exist
  std::optional<Owner> owner;  // of every directory that is made
};
// io/eexist when anything has the name.
Result<Fd> make_directory_beneath(int root, const std::string& path, const DirectoryOptions& options = {});

// Files and directories only; not-regular-file for FIFOs, sockets and devices. Also for a file that we may
// not open: then through a descriptor that cannot read it (fchmodat2, or the descriptor's own link in /proc).
Status chmod_beneath(int root, const std::string& path, mode_t mode);

// The entry itself, whatever it is. Nothing is replaced unless `replace` (then files by files, empty
// directories by directories); io/eexist.
Status rename_beneath(int root, const std::string& from, const std::string& to, bool replace = false);

// A second name for a file: the entry itself; io/eexist when anything has the new name.
Status link_beneath(int root, const std::string& from, const std::string& to);

// Anything but a directory (not-regular-file).
Status remove_file_beneath(int root, const std::string& path);
// An empty directory; io/enotempty, not-directory.
Status remove_directory_beneath(int root, const std::string& path);
// Whatever it is, with all below it; stays on its file system.
Status remove_tree_beneath(int root, const std::string& path);

}  // namespace hitchrail::pathfs
