#include "pathfs/raw.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "pathfs/internal.hpp"

namespace hitchrail::pathfs::raw {
namespace {

int errno_of(const Error& error) {
  switch (code_of(error).value_or(Code::io)) {
    case Code::not_found:
      return ENOENT;
    case Code::symlink_rejected:
      return ELOOP;
    case Code::not_directory:
      return ENOTDIR;
    case Code::not_regular_file:
      return EISDIR;
    case Code::path_escape:
      return EXDEV;
    case Code::too_large:
    case Code::walk_limit:
      return E2BIG;
    case Code::io:
      break;
  }
  const std::string reason = io_reason(error);
  for (const int number : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, ENAMETOOLONG, ESTALE}) {
    if (reason == errno_error("", "", number).code) {
      return number;
    }
  }
  return EIO;
}

}  // namespace

Fd open_below(int root, const std::string& path, int flags) {
  if (path.empty()) {
    return Fd(::openat(root, ".", flags | O_CLOEXEC | O_NOFOLLOW));
  }
  auto opened = open_beneath(root, path, flags);
  if (opened.has_value()) {
    return std::move(opened).value();
  }
  errno = errno_of(opened.error());
  return Fd();
}

bool look(int directory, const char* name, Stat& out) {
  if (*name != '\0' && !plain_name(name)) {
    errno = EINVAL;
    return false;
  }
  struct statx info {};
  const int flags =
      AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC | (*name == '\0' ? AT_EMPTY_PATH : 0);
  if (::statx(directory, name, flags,
              STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO | STATX_MTIME | STATX_CTIME | STATX_BTIME |
                  STATX_UID | STATX_GID | STATX_BLOCKS,
              &info) < 0) {
    return false;
  }
  out.device = makedev(info.stx_dev_major, info.stx_dev_minor);
  out.inode = info.stx_ino;
  out.mode = info.stx_mode;
  out.links = info.stx_nlink;
  out.uid = info.stx_uid;
  out.gid = info.stx_gid;
  out.allocated = info.stx_blocks * 512;
  const auto nanoseconds = [](const statx_timestamp& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  out.modified_ns = nanoseconds(info.stx_mtime);
  out.changed_ns = nanoseconds(info.stx_ctime);
  out.born_ns = (info.stx_mask & STATX_BTIME) != 0 ? nanoseconds(info.stx_btime) : 0;
  return true;
}

int list_names(int directory, bool (*entry)(void*, const char*, unsigned char), void* context) {
  struct Record {
    std::uint64_t ino;
    std::int64_t next;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  alignas(Record) std::array<char, 32768> buffer;
  for (;;) {
    const long size = ::syscall(SYS_getdents64, directory, buffer.data(), buffer.size());
    if (size <= 0) {
      return size == 0 ? 0 : errno;
    }
    for (long at = 0; at < size;) {
      const auto* record = reinterpret_cast<const Record*>(buffer.data() + at);
      at += record->size;
      const char* name = record->name;
      if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'))) {
        continue;
      }
      if (!entry(context, name, record->type)) {
        return 0;
      }
    }
  }
}

}  // namespace hitchrail::pathfs::raw
