#include "core/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/ids.hpp"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace hitchrail {
namespace {

constexpr std::size_t kChunk = 1u << 18;

std::string fd_name(int fd) {
  return "descriptor " + std::to_string(fd);
}

Error too_large(std::string object, std::size_t max_bytes) {
  return Error{ErrorClass::refused,
               "file-too-large",
               "read",
               std::move(object),
               "the content is larger than " + std::to_string(max_bytes) + " bytes",
               ""};
}

Error bad_name(const char* operation, const std::string& name) {
  return Error{ErrorClass::internal,
               "not-a-file-name",
               operation,
               name,
               "one file name is needed here, not a path",
               ""};
}

bool is_single_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

int open_retry(int dirfd, const char* name, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// O_NOFOLLOW with O_DIRECTORY says ENOTDIR for a link; openat2 says ELOOP. Callers see one answer.
int explain_link(int dirfd, const char* name, int error_number) {
  struct stat st {};
  if (error_number == ENOTDIR && ::fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(st.st_mode)) {
    return ELOOP;
  }
  return error_number;
}

// The walk for kernels and containers without openat2: one component at a time, none of them a link.
Result<Fd> walk_no_symlinks(int dirfd, const std::string& path, int flags, mode_t mode) {
  Fd holder;
  int current = dirfd;
  std::size_t at = 0;
  if (!path.empty() && path.front() == '/') {
    holder.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    current = holder.get();
  }
  if (path.empty() || current == -1) {
    return errno_error("open", path, path.empty() ? ENOENT : errno);
  }
  std::string name = ".";
  while (true) {
    at = path.find_first_not_of('/', at);
    if (at == std::string::npos) {
      break;
    }
    const std::size_t end = std::min(path.find('/', at), path.size());
    name = path.substr(at, end - at);
    at = end;
    if (path.find_first_not_of('/', at) == std::string::npos) {
      break;
    }
    Fd next(open_retry(current, name.c_str(), O_PATH | O_DIRECTORY, 0));
    if (!next) {
      return errno_error("open", path, explain_link(current, name.c_str(), errno));
    }
    holder = std::move(next);
    current = holder.get();
    name = ".";
  }
  const bool directory = path.back() == '/';
  Fd fd(open_retry(current, name.c_str(), flags | (directory ? O_DIRECTORY : 0), mode));
  if (!fd) {
    return errno_error("open", path, explain_link(current, name.c_str(), errno));
  }
  struct stat st {};
  // O_PATH | O_NOFOLLOW opens the link itself instead of failing.
  if ((flags & O_PATH) != 0 && (::fstat(fd.get(), &st) != 0 || S_ISLNK(st.st_mode))) {
    return errno_error("open", path, ELOOP);
  }
  return fd;
}

Status seal(int fd, const std::string& name) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return errno_error("seal", name, errno);
  }
  if (::lseek(fd, 0, SEEK_SET) != 0) {
    return errno_error("seek", name, errno);
  }
  return {};
}

Result<Fd> new_memfd(const std::string& name) {
  // MFD_EXEC keeps such copies executable where vm.memfd_noexec is 1; kernels before 6.3 do not know the
  // flag.
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC));
  if (!fd && errno == EINVAL) {
    fd.reset(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  if (!fd) {
    return errno_error("create memory file", name, errno);
  }
  return fd;
}

Status sync_directory(int dirfd) {
  // A path descriptor cannot be synced, and AT_FDCWD is none.
  Fd directory(::openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) {
    return errno_error("sync directory", fd_name(dirfd), errno);
  }
  return {};
}

}  // namespace

Result<Fd> open_at(int dirfd, const std::string& name, int flags, mode_t mode) {
  Fd fd(open_retry(dirfd, name.c_str(), flags, mode));
  if (!fd) {
    return errno_error("open", name, explain_link(dirfd, name.c_str(), errno));
  }
  return fd;
}

Result<Fd> open_no_symlinks(int dirfd, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  do {
    fd = ::syscall(SYS_openat2, dirfd, path.c_str(), &how, sizeof how);
  } while (fd < 0 && errno == EINTR);
  if (fd >= 0) {
    return Fd(static_cast<int>(fd));
  }
  // Older container filters answer EPERM for a call they do not know; the walk then gives the true answer.
  if (errno == ENOSYS || errno == EPERM) {
    return walk_no_symlinks(dirfd, path, flags, mode);
  }
  return errno_error("open", path, errno);
}

Result<std::string> read_all(int fd, std::size_t max_bytes) {
  std::string out;
  struct stat st {};
  if (::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
    out.reserve(std::min(static_cast<std::size_t>(st.st_size), max_bytes) + 1);
  }
  while (true) {
    const std::size_t have = out.size();
    if (have > max_bytes) {
      return too_large(fd_name(fd), max_bytes);
    }
    // One byte more than allowed, so that exactly max_bytes is seen to end there.
    const std::size_t room =
        out.capacity() > have ? out.capacity() - have : std::min<std::size_t>(kChunk, have + 4096);
    const std::size_t want = std::min(room, max_bytes - have + 1);
    out.resize(have + want);
    const ssize_t n = ::read(fd, out.data() + have, want);
    if (n < 0 && errno == EINTR) {
      out.resize(have);
      continue;
    }
    if (n < 0) {
      return errno_error("read", fd_name(fd), errno);
    }
    out.resize(have + static_cast<std::size_t>(n));
    if (n == 0) {
      return out;
    }
  }
}

Result<std::string> read_file_at(int dirfd, const std::string& name, std::size_t max_bytes) {
  // Without O_NONBLOCK a planted FIFO would hold us here for ever.
  HR_TRY(fd, open_at(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) {
    return errno_error("stat", name, errno);
  }
  if (!S_ISREG(st.st_mode)) {
    return Error{
        ErrorClass::refused, "not-a-regular-file", "read", name, "only a regular file is read here", ""};
  }
  auto bytes = read_all(fd.get(), max_bytes);
  if (bytes.has_error()) {
    Error error = std::move(bytes).error();
    error.object = name;
    return error;
  }
  return bytes;
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd waiting{fd, POLLOUT, 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return errno_error("write", fd_name(fd), errno);
    }
  }
  return {};
}

Status pwrite_all(int fd, std::string_view bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      offset += n;
    } else if (errno != EINTR) {
      return errno_error("write", fd_name(fd), errno);
    }
  }
  return {};
}

Status write_file_atomic(int dirfd, const std::string& name, std::string_view bytes, mode_t mode) {
  if (!is_single_name(name)) {
    return bad_name("write", name);
  }
  const std::string temporary = random_id(".tmp-", 16);
  HR_TRY(fd, open_at(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
  Status status = write_all(fd.get(), bytes);
  if (status.has_value() && ::fsync(fd.get()) != 0) {
    status = errno_error("sync", name, errno);
  }
  if (status.has_value() && ::renameat(dirfd, temporary.c_str(), dirfd, name.c_str()) != 0) {
    status = errno_error("rename", name, errno);
  }
  if (status.has_error()) {
    ::unlinkat(dirfd, temporary.c_str(), 0);
    Error error = std::move(status).error();
    error.object = name;
    return error;
  }
  return sync_directory(dirfd);
}

Result<Fd> sealed_memfd(const std::string& name, std::string_view bytes) {
  HR_TRY(fd, new_memfd(name));
  HR_CHECK(write_all(fd.get(), bytes));
  HR_CHECK(seal(fd.get(), name));
  return fd;
}

Result<Fd> sealed_copy(const std::string& name, int source_fd, std::size_t max_bytes) {
  HR_TRY(fd, new_memfd(name));
  const std::unique_ptr<char[]> buffer(new char[kChunk]);
  off_t offset = 0;
  while (true) {
    const ssize_t n = ::pread(source_fd, buffer.get(), kChunk, offset);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno_error("read", name, errno);
    }
    if (n == 0) {
      break;
    }
    offset += n;
    if (static_cast<std::size_t>(offset) > max_bytes) {
      return too_large(name, max_bytes);
    }
    HR_CHECK(write_all(fd.get(), {buffer.get(), static_cast<std::size_t>(n)}));
  }
  HR_CHECK(seal(fd.get(), name));
  return fd;
}

Result<std::vector<std::string>> list_directory(int dirfd) {
  Fd fd(::openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return errno_error("open directory", fd_name(dirfd), errno);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) {
    return errno_error("open directory", fd_name(dirfd), errno);
  }
  (void)fd.release();  // closedir closes it
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      break;
    }
    std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(std::move(name));
    }
  }
  if (errno != 0) {
    return errno_error("read directory", fd_name(dirfd), errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace hitchrail
