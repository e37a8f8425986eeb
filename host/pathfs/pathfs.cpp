#include "pathfs/pathfs.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "core/file.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr int kMaxLinks = 40;    // as the kernel's own walk
constexpr int kMaxDepth = 4096;  // directories between a path and "/"

Error refuse(const char* code, const char* operation, std::string object, std::string detail,
             std::string remedy = "") {
  return Error{ErrorClass::refused, code, operation, std::move(object), std::move(detail), std::move(remedy)};
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

Status check_relative(const std::string& path) {
  const std::vector<std::string> parts = components(path);
  const bool dots =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part == ".."; });
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos || dots || parts.empty()) {
    return refuse("path-invalid", "open", path, "a path below a root is relative and has no \"..\"");
  }
  return {};
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
  Identity out;
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.uid = st.st_uid;
  out.gid = st.st_gid;
  out.type = type_of(st.st_mode);
  out.mode = st.st_mode & 07777;
  out.size = static_cast<std::uint64_t>(st.st_size);
  return out;
}

Error open_error(const std::string& path, int error_number) {
  if (error_number == ELOOP) {
    return refuse("path-symlink", "open", path, "a component of the path is a symbolic link");
  }
  if (error_number == ENOTDIR) {
    return refuse("path-wrong-type", "open", path, "a component of the path is not a directory");
  }
  if (error_number == EXDEV) {
    return refuse("path-invalid", "open", path, "the path leaves its root");
  }
  return errno_error("open", path, error_number);
}

int open_component(int dirfd, const std::string& name, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::openat(dirfd, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0 && errno == ENOTDIR) {  // O_DIRECTORY | O_NOFOLLOW does not say that it was a link
    struct stat st {};
    if (::fstatat(dirfd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
      errno = ELOOP;
    } else {
      errno = ENOTDIR;
    }
  }
  return fd;
}

Result<Fd> walk_beneath(int root, const std::string& path, int flags, mode_t mode) {
  const std::vector<std::string> parts = components(path);
  Fd holder;
  int current = root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    Fd next(open_component(current, parts[i], O_PATH | O_DIRECTORY, 0));
    if (!next) {
      return open_error(path, errno);
    }
    holder = std::move(next);
    current = holder.get();
  }
  Fd fd(open_component(current, parts.back(), flags, mode));
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
  } while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 100)));
  return static_cast<int>(fd);
}

}  // namespace

std::string Identity::text() const {
  return std::to_string(device) + ":" + std::to_string(inode);
}

Result<Identity> identify(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    return errno_error("stat", "descriptor " + std::to_string(fd), errno);
  }
  return from_stat(st);
}

Result<Identity> identify_at(int dirfd, const std::string& name) {
  struct stat st {};
  if (::fstatat(dirfd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    return from_stat(st);
  }
  if (errno == ENOENT) {
    return Identity{};
  }
  return errno_error("stat", name, errno);
}

Result<Fd> open_beneath(int root, const std::string& path, int flags, mode_t mode) {
  HR_CHECK(check_relative(path));
  const int all = flags | O_CLOEXEC | O_NOFOLLOW | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK | O_NOCTTY);
  Fd fd(open_how_beneath(root, path, all, mode));
  if (fd) {
    return fd;
  }
  const int error = errno;
  if (error == ENOSYS || error == EPERM) {  // old kernel, or a container filter that does not know the call
    return walk_beneath(root, path, all, mode);
  }
  if (error == ENOTDIR &&
      (flags & O_PATH) == 0) {  // O_DIRECTORY | O_NOFOLLOW does not say that it was a link
    const Fd entry(open_how_beneath(root, path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0));
    struct stat st {};
    if (entry && ::fstat(entry.get(), &st) == 0 && S_ISLNK(st.st_mode)) {
      return open_error(path, ELOOP);
    }
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
    return refuse("path-wrong-type", "open", path, "not a regular file");
  }
  return fd;
}

Result<std::string> read_beneath(int root, const std::string& path, std::size_t max_bytes) {
  HR_TRY(fd, open_regular_beneath(root, path));
  auto bytes = read_all(fd.get(), max_bytes);
  if (bytes.has_error()) {
    Error error = std::move(bytes).error();
    error.object = path;
    return error;
  }
  return bytes;
}

namespace {

// The operator's path, one component at a time, so that every link on the way is seen and judged by its
// owner.
class Walk {
 public:
  explicit Walk(std::string given) : given_(std::move(given)) {}

  Result<Resolved> run() {
    HR_CHECK(start());
    while (!todo_.empty()) {
      Step step = std::move(todo_.front());
      todo_.pop_front();
      HR_CHECK(take(step));
    }
    Resolved out;
    out.fd.reset(::openat(at_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!out.fd) {
      return errno_error("open", given_, errno);
    }
    HR_TRY(identity, identify(out.fd.get()));
    out.identity = identity;
    HR_TRY(path, canonical());
    out.path = std::move(path);
    return out;
  }

 private:
  struct Step {
    std::string name;
    bool last = false;  // the last component that the operator typed: may not be a link
  };

  Status start() {
    if (given_.empty() || given_.find('\0') != std::string::npos) {
      return errno_error("open", given_, ENOENT);
    }
    at_.reset(::open(given_.front() == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_) {
      return errno_error("open", given_, errno);
    }
    push(given_, true);
    return {};
  }

  void push(const std::string& path, bool typed) {
    std::vector<std::string> parts = components(path);
    std::size_t last = parts.size();  // "link/." and "link/" end in the link, whatever is written after it
    while (last > 0 && parts[last - 1] == ".") {
      --last;
    }
    for (std::size_t i = parts.size(); i > 0; --i) {
      todo_.push_front(Step{std::move(parts[i - 1]), typed && i == last});
    }
  }

  Status take(const Step& step) {
    if (step.name == ".") {
      return {};
    }
    Fd next(::openat(at_.get(), step.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) {
      return errno_error("open", given_, errno);
    }
    HR_TRY(identity, identify(next.get()));
    if (identity.type == FileType::symlink) {
      return follow(step, next.get(), identity);
    }
    if (identity.type != FileType::directory) {
      return refuse("path-wrong-type", "open", given_, "\"" + step.name + "\" is not a directory");
    }
    at_ = std::move(next);
    return {};
  }

  Status follow(const Step& step, int link, const Identity& identity) {
    if (step.last) {
      return refuse("path-symlink", "open", given_, "the path itself is a symbolic link");
    }
    if (identity.uid != 0 && identity.uid != ::geteuid()) {
      return refuse("path-symlink", "open", given_,
                    "\"" + step.name + "\" is a symbolic link made by uid " + std::to_string(identity.uid));
    }
    if (++links_ > kMaxLinks) {
      return refuse("path-loop", "open", given_, "too many symbolic links");
    }
    std::string text(4097, '\0');
    const ssize_t size = ::readlinkat(link, "", text.data(), text.size());
    if (size <= 0 || static_cast<std::size_t>(size) == text.size()) {
      return errno_error("read link", given_, size < 0 ? errno : ENAMETOOLONG);
    }
    text.resize(static_cast<std::size_t>(size));
    if (text.front() == '/') {
      at_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!at_) {
        return errno_error("open", given_, errno);
      }
    }
    push(text, false);
    return {};
  }

  // The kernel's own name of the directory that is held open; checked by walking it again without any link.
  Result<std::string> canonical() {
    const std::string self = "/proc/self/fd/" + std::to_string(at_.get());
    std::string text(16385, '\0');
    const ssize_t size = ::readlink(self.c_str(), text.data(), text.size());
    if (size <= 0 || static_cast<std::size_t>(size) == text.size()) {
      return errno_error("resolve", given_, size < 0 ? errno : ENAMETOOLONG);
    }
    text.resize(static_cast<std::size_t>(size));
    HR_TRY(again, open_no_symlinks(AT_FDCWD, text, O_PATH | O_DIRECTORY));
    HR_TRY(one, identify(at_.get()));
    HR_TRY(two, identify(again.get()));
    if (!one.same_file(two)) {
      return errno_error("resolve", given_, ESTALE);
    }
    return text;
  }

  std::string given_;
  Fd at_;
  std::deque<Step> todo_;
  int links_ = 0;
};

}  // namespace

Result<Resolved> resolve_directory(const std::string& path) {
  return Walk(path).run();
}

Result<bool> lies_within(int fd, const Identity& ancestor) {
  Fd at(::openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at) {
    return errno_error("open", "descriptor " + std::to_string(fd), errno);
  }
  HR_TRY(here, identify(at.get()));
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (here.same_file(ancestor)) {
      return true;
    }
    Fd up(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!up) {
      return errno_error("open", "..", errno);
    }
    HR_TRY(above, identify(up.get()));
    if (above.same_file(here)) {
      return false;  // "/" is its own parent
    }
    at = std::move(up);
    here = above;
  }
  return errno_error("walk", "..", ELOOP);
}

}  // namespace hitchrail::pathfs
