#pragma once
// The same no-follow access for walks that must keep up with the kernel: errno and plain values instead of
// Error and Identity. Promises as pathfs.hpp; bounds and what an errno means are the caller's business.

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/fd.hpp"

namespace hitchrail::pathfs::raw {

// Below a root by a relative path, "" for the root itself, nothing followed, however long the path is.
// Invalid sets errno: EXDEV for a path that is not plain or leaves the root, ELOOP for a link.
Fd open_below(int root, const std::string& path, int flags);

struct Stat {
  std::uint64_t device = 0, inode = 0;
  std::uint32_t mode = 0, links = 0, uid = 0, gid = 0;
  std::uint64_t allocated = 0;                   // bytes on disk
  std::int64_t modified_ns = 0, changed_ns = 0;  // mtime, ctime
  std::int64_t born_ns = 0;                      // 0 where the file system does not say
};
// The entry `name` of a directory, itself and not what it links to; "" is the descriptor. Wakes nothing up
// (no automount, no round trip to a server). False sets errno; EINVAL for a name that is a path.
bool look(int directory, const char* name, Stat& out);

// Calls `entry` for each name but "." and ".."; false from it ends the listing. Returns 0 or an errno.
int list_names(int directory, bool (*entry)(void*, const char* name, unsigned char type), void* context);
template <class F>
int list_names(int directory, F&& entry) {
  return list_names(
      directory,
      [](void* context, const char* name, unsigned char type) {
        return (*static_cast<std::remove_reference_t<F>*>(context))(name, type);
      },
      &entry);
}

}  // namespace hitchrail::pathfs::raw
