#pragma once
// Small file operations on descriptors. Nothing here follows a link in the last component; `dirfd` names are
// single components unless said otherwise.

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail {

Result<Fd> open_at(int dirfd, const std::string& name, int flags,
                   mode_t mode = 0);  // adds O_CLOEXEC | O_NOFOLLOW
// openat2 with RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS (falls back to a component walk on ENOSYS); may have
// several components.
Result<Fd> open_no_symlinks(int dirfd, const std::string& path, int flags, mode_t mode = 0);
Result<std::string> read_all(int fd, std::size_t max_bytes);  // code file-too-large
Result<std::string> read_file_at(int dirfd, const std::string& name, std::size_t max_bytes);
Status write_all(int fd, std::string_view bytes);
Status pwrite_all(int fd, std::string_view bytes, off_t offset);
// temp name in the same directory, fsync, rename, fsync of the directory.
Status write_file_atomic(int dirfd, const std::string& name, std::string_view bytes, mode_t mode = 0600);
// A memfd with these bytes, sealed against every change; offset 0.
Result<Fd> sealed_memfd(const std::string& name, std::string_view bytes);
Result<Fd> sealed_copy(const std::string& name, int source_fd, std::size_t max_bytes);
Result<std::vector<std::string>> list_directory(int dirfd);  // names without . and .., sorted
Status remove_tree_at(int dirfd,
                      const std::string& name);  // no link followed, one file system; absent is success

}  // namespace hitchrail
