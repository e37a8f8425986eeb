#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "core/file.hpp"
#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr int kMaxAgain = 64;                   // openat2 is asked again so often before the walk decides
constexpr int kMaxUnstable = 4;                 // reads of a file that changes while it is read
constexpr std::chrono::milliseconds kTick{11};  // a file's times step by up to 10 ms

// What stood where no directory could be opened: ENOTDIR with O_NOFOLLOW does not say that it was a link.
// EAGAIN: it is a directory now, so it is asked for again.
int explain_not_directory(int looked, const struct stat& st) {
  if (looked != 0 || S_ISDIR(st.st_mode)) {
    return EAGAIN;
  }
  return S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
}

int open_component(int dirfd, const std::string& name, int flags, mode_t mode) {
  for (int tries = 0;; ++tries) {
    const int fd = ::openat(dirfd, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd >= 0 || (errno != EINTR && errno != ENOTDIR)) {
      return fd;
    }
    if (errno == EINTR) {
      continue;
    }
    struct stat st {};
    const int error = explain_not_directory(::fstatat(dirfd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW), st);
    if (error != EAGAIN || tries >= kMaxAgain) {
      errno = error == EAGAIN ? ELOOP : error;  // exchanged without end, which only a link's place is
      return -1;
    }
  }
}

Result<Fd> walk_beneath(int root, const std::string& path, int flags, mode_t mode) {
  Fd holder;
  int current = root;
  std::size_t at = 0;
  while (true) {
    const std::size_t slash = path.find('/', at);
    if (slash == std::string::npos) {
      break;
    }
    Fd next(open_component(current, path.substr(at, slash - at), O_PATH | O_DIRECTORY, 0));
    if (!next) {
      return open_error(path, errno);
    }
    holder = std::move(next);
    current = holder.get();
    at = slash + 1;
  }
  Fd fd(open_component(current, path.substr(at), flags, mode));
  if (!fd) {
    return open_error(path, errno);
  }
  return fd;
}

int open_how_beneath(int root, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags));
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  // EAGAIN: a rename elsewhere raced with the walk and the kernel cannot prove that we stayed below.
  int tries = 0;
  do {
    fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  } while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < kMaxAgain)));
  return static_cast<int>(fd);
}

// The same, with an ENOTDIR explained: of the last component, or of one on the way, which is then a file.
int open_explained(int root, const std::string& path, int flags, mode_t mode) {
  for (int tries = 0;; ++tries) {
    const int fd = open_how_beneath(root, path, flags, mode);
    if (fd >= 0 || errno != ENOTDIR) {
      return fd;
    }
    const Fd entry(open_how_beneath(root, path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0));
    if (!entry) {
      return -1;
    }
    struct stat st {};
    const int error = explain_not_directory(::fstat(entry.get(), &st), st);
    if (error != EAGAIN || tries >= kMaxAgain) {
      errno = error == EAGAIN ? ELOOP : error;
      return -1;
    }
  }
}

// The clock by which the kernel stamps files.
std::int64_t stamp_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Error named(Error error, const std::string& path) {
  if (!code_of(error)) {
    error = error.code == "file-too-large"
                ? make_error(Code::too_large, "read", path, error.detail)
                : make_error(Code::io, "read", path, error.code + ": " + error.detail);
  }
  error.object = path;
  return error;
}

Result<std::string> read_bytes(int fd, const std::string& path, std::size_t max_bytes) {
  auto bytes = read_all(fd, max_bytes);
  if (bytes.has_error()) {
    return named(std::move(bytes).error(), path);
  }
  return bytes;
}

}  // namespace

bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

bool plain_relative(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == "..") {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    path.remove_prefix(slash + 1);
  }
}

Status check_relative(const char* operation, const std::string& path) {
  if (!plain_relative(path) || path.find('\0') != std::string::npos) {
    return make_error(Code::path_escape, operation, path,
                      "a path below a root is relative, of plain components, without \"..\"");
  }
  return {};
}

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) {
      out.push_back(path.substr(at, end - at));
    }
    at = end + 1;
  }
  return out;
}

FileType type_of(mode_t mode) {
  if (S_ISREG(mode)) {
    return FileType::regular;
  }
  if (S_ISDIR(mode)) {
    return FileType::directory;
  }
  return S_ISLNK(mode) ? FileType::symlink : FileType::other;
}

Identity from_stat(const struct stat& st) {
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  Identity out;
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.uid = st.st_uid;
  out.gid = st.st_gid;
  out.type = type_of(st.st_mode);
  out.mode = st.st_mode & 07777;
  out.size = static_cast<std::uint64_t>(st.st_size);
  out.links = st.st_nlink;
  out.modified_ns = nanoseconds(st.st_mtim);
  out.changed_ns = nanoseconds(st.st_ctim);
  return out;
}

std::string Identity::text() const {
  return std::to_string(device) + ":" + std::to_string(inode);
}

Result<Identity> identify(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    return system_error("stat", "descriptor " + std::to_string(fd), errno);
  }
  return from_stat(st);
}

Result<Identity> identify_at(int dirfd, const std::string& name) {
  if (!plain_name(name)) {
    return make_error(Code::path_escape, "stat", name, "one file name is needed here, not a path");
  }
  struct stat st {};
  if (::fstatat(dirfd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    return from_stat(st);
  }
  if (errno == ENOENT) {
    return Identity{};
  }
  return system_error("stat", name, errno);
}

Result<Identity> identify_beneath(int root, const std::string& path) {
  HR_TRY(fd, open_beneath(root, path, O_PATH));
  return identify(fd.get());
}

Result<Fd> open_beneath(int root, const std::string& path, int flags, mode_t mode) {
  HR_CHECK(check_relative("open", path));
  const int all = flags | O_CLOEXEC | O_NOFOLLOW | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK | O_NOCTTY);
  Fd fd(open_explained(root, path, all, mode));
  if (fd) {
    return fd;
  }
  const int error = errno;
  // ENOSYS: an old kernel; EPERM: also a container filter that does not know the call; EAGAIN: renames
  // without end; ENAMETOOLONG: a path that is too long as a whole, of names that are not.
  if (error == ENOSYS || error == EPERM || error == EAGAIN || error == ENAMETOOLONG) {
    return walk_beneath(root, path, all, mode);
  }
  return open_error(path, error);
}

Result<Fd> open_directory_beneath(int root, const std::string& path) {
  return open_beneath(root, path, O_RDONLY | O_DIRECTORY);
}

Result<Fd> open_regular_beneath(int root, const std::string& path) {
  HR_TRY(fd, open_beneath(root, path, O_RDONLY));
  HR_TRY(identity, identify(fd.get()));
  if (identity.type != FileType::regular) {
    return wrong_type("open", path, identity.type);
  }
  return fd;
}

Result<std::string> read_beneath(int root, const std::string& path, std::size_t max_bytes) {
  HR_TRY(fd, open_regular_beneath(root, path));
  return read_bytes(fd.get(), path, max_bytes);
}

Result<Content> read_stable_beneath(int root, const std::string& path, std::size_t max_bytes) {
  std::optional<Content> previous;
  for (int i = 0; i < kMaxUnstable; ++i) {
    if (i > 0) {
      std::this_thread::sleep_for(kTick);
    }
    const std::int64_t start = stamp_now();
    HR_TRY(fd, open_regular_beneath(root, path));
    HR_TRY(before, identify(fd.get()));
    HR_TRY(bytes, read_bytes(fd.get(), path, max_bytes));
    HR_TRY(after, identify(fd.get()));
    if (!before.unchanged(after) || bytes.size() != after.size) {
      previous.reset();
      continue;
    }
    // A file stamped in this very tick may have been written twice in it: then two reads must agree.
    const bool again = previous && previous->identity.unchanged(after) && previous->bytes == bytes;
    if (after.changed_ns < start || again) {
      return Content{std::move(bytes), after};
    }
    previous = Content{std::move(bytes), after};
  }
  return stale("read", path);
}

Result<std::string> read_link_beneath(int root, const std::string& path) {
  HR_TRY(link, open_beneath(root, path, O_PATH));
  std::string text(4097, '\0');
  const ssize_t size = ::readlinkat(link.get(), "", text.data(), text.size());
  if (size < 0) {  // ENOENT is what the kernel says of a descriptor that is no link
    return system_error("read link", path, errno == ENOENT ? EINVAL : errno);
  }
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Result<std::vector<std::string>> list_directory(int dirfd, std::size_t max_names) {
  const std::string label = "descriptor " + std::to_string(dirfd);
  Fd fd(::openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return system_error("open directory", label, errno);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) {
    return system_error("open directory", label, errno);
  }
  (void)fd.release();  // closedir closes it
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      if (names.size() >= max_names) {
        return make_error(Code::walk_limit, "read directory", label,
                          "more than " + std::to_string(max_names) + " entries");
      }
      names.emplace_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return system_error("read directory", label, errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Place> open_place(int root, const std::string& path) {
  HR_CHECK(check_relative("open", path));
  Place place;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    place.directory = root;
    place.name = path;
    return place;
  }
  auto parent = open_beneath(root, path.substr(0, slash), O_PATH | O_DIRECTORY);
  if (parent.has_error()) {
    Error error = std::move(parent).error();
    error.object = path;
    return error;
  }
  place.holder = std::move(parent).value();
  place.directory = place.holder.get();
  place.name = path.substr(slash + 1);
  return place;
}

Result<Fd> reopen(int fd, int flags, const std::string& label) {
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  Fd out(::open(self.c_str(), (flags & ~O_NOFOLLOW) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!out) {
    return system_error("open", label, errno);
  }
  return out;
}

}  // namespace hitchrail::pathfs
