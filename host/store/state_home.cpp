#include "store/state_home.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::store {
namespace {

constexpr std::uint64_t least_room = 2u << 20;  // a journal, its reserve, a database page or two

Error refuse(ErrorClass kind, const char* code, const std::string& path, std::string detail,
             std::string remedy) {
  return Error{kind, code, "open state directory", path, std::move(detail), std::move(remedy)};
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "/a//b/./c/" as {"a", "b", "c"}; empty when the path is not absolute or climbs.
std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty() || path[0] != '/') {
    return out;
  }
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    std::string name = path.substr(at, end - at);
    if (name == "..") {
      return {};
    }
    if (!name.empty() && name != ".") {
      out.push_back(std::move(name));
    }
    at = end + 1;
  }
  return out;
}

// One step down without following a link; makes the directory when asked. Directories on the way (O_PATH)
// need not be readable.
Result<Fd> step(int parent, const std::string& name, const std::string& so_far, bool make,
                int access = O_RDONLY) {
  const int flags = access | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = ::openat(parent, name.c_str(), flags);
  if (fd < 0 && errno == ENOENT && make) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
      const int number = errno;
      if (number == EROFS || number == EACCES || number == EPERM) {
        return refuse(ErrorClass::environment, "state-directory-read-only", so_far, "it cannot be made here",
                      "set HITCHRAIL_HOME to a directory you can write");
      }
      if (number == ENOSPC || number == EDQUOT) {
        return refuse(ErrorClass::environment, "state-directory-full", so_far, "the file system is full",
                      "free space, or set HITCHRAIL_HOME to another file system");
      }
      return errno_error("make state directory", so_far, number);
    }
    fd = ::openat(parent, name.c_str(), flags);
  }
  if (fd >= 0) {
    return Fd(fd);
  }
  if (errno == ENOENT) {
    return refuse(ErrorClass::environment, "state-directory-absent", so_far, "nothing has been run yet", "");
  }
  if (errno == ELOOP || errno == ENOTDIR) {
    return refuse(ErrorClass::refused, "state-directory-unsafe", so_far, "it is a link or not a directory",
                  "set HITCHRAIL_HOME to the resolved path (realpath) of a directory of yours");
  }
  return errno_error("open state directory", so_far, errno);
}

// `final`: the state home itself or what is below it, else one of the directories above.
Status judge(int fd, const std::string& path, bool final) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return errno_error("stat", path, errno);
  }
  if (!final) {
    // Whoever may rename entries above could put another directory in this one's place.
    if ((info.st_mode & 0002) != 0 && (info.st_mode & S_ISVTX) == 0) {
      return refuse(ErrorClass::refused, "state-directory-unsafe", path,
                    "everybody may change a directory above the state",
                    "chmod o-w the directory, or set HITCHRAIL_HOME elsewhere");
    }
    return {};
  }
  if (info.st_uid != ::geteuid()) {
    return refuse(ErrorClass::refused, "state-directory-foreign", path,
                  "it belongs to uid " + std::to_string(info.st_uid),
                  "set HITCHRAIL_HOME to a directory of yours");
  }
  if ((info.st_mode & 0077) != 0) {
    return refuse(ErrorClass::refused, "state-directory-shared", path, "its mode lets others in",
                  "chmod 700 it after looking at what is inside");
  }
  return {};
}

Status prove_writable(int fd, const std::string& path) {
  const std::string probe = random_id(".probe-", 8);
  const int made = ::openat(fd, probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const int number = errno;
  if (made >= 0) {
    ::close(made);
    ::unlinkat(fd, probe.c_str(), 0);
  } else if (number == ENOSPC || number == EDQUOT) {
    return refuse(ErrorClass::environment, "state-directory-full", path, "no file can be made in it",
                  "free space");
  } else {
    return refuse(ErrorClass::environment, "state-directory-read-only", path, "no file can be made in it",
                  "mount it writable, or set HITCHRAIL_HOME to a directory you can write");
  }
  struct statfs room {};
  if (::fstatfs(fd, &room) == 0 && room.f_blocks > 0 &&
      static_cast<std::uint64_t>(room.f_bavail) * static_cast<std::uint64_t>(room.f_bsize) < least_room) {
    return refuse(ErrorClass::environment, "state-directory-full", path, "less than 2 MiB are free",
                  "free space");
  }
  return {};
}

}  // namespace

Result<std::string> state_home_path() {
  const std::string own = environment("HITCHRAIL_HOME");
  if (!own.empty()) {
    if (own[0] == '/') {
      return own;
    }
    return refuse(ErrorClass::usage, "state-directory-unset", own, "HITCHRAIL_HOME is not an absolute path",
                  "set it to an absolute path");
  }
  const std::string xdg = environment("XDG_STATE_HOME");
  if (!xdg.empty() && xdg[0] == '/') {
    return xdg + "/hitchrail";
  }
  const std::string home = environment("HOME");
  if (!home.empty() && home[0] == '/') {
    return home + "/.local/state/hitchrail";
  }
  return refuse(ErrorClass::usage, "state-directory-unset", "HITCHRAIL_HOME",
                "neither HITCHRAIL_HOME, XDG_STATE_HOME nor HOME is an absolute path", "set HITCHRAIL_HOME");
}

Result<StateHome> StateHome::open(Access access) {
  HR_TRY(path, state_home_path());
  return open_path(path, access);
}

Result<StateHome> StateHome::open_path(std::string path, Access access) {
  const std::vector<std::string> names = components(path);
  if (names.empty()) {
    return refuse(ErrorClass::usage, "state-directory-unset", path, "it is not an absolute path without ..",
                  "set HITCHRAIL_HOME to an absolute path");
  }
  Fd at(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string so_far;
  for (std::size_t i = 0; i < names.size(); ++i) {
    so_far += "/" + names[i];
    const bool final = i + 1 == names.size();
    HR_TRY(next, step(at.get(), names[i], so_far, access == Access::write, final ? O_RDONLY : O_PATH));
    HR_CHECK(judge(next.get(), so_far, final));
    at = std::move(next);
  }
  if (access == Access::write) {
    HR_CHECK(prove_writable(at.get(), so_far));
  }
  return StateHome(std::move(at), so_far);
}

Result<Fd> StateHome::directory(const std::string& name, Access access) const {
  const std::string path = path_ + "/" + name;
  HR_TRY(fd, step(fd_.get(), name, path, access == Access::write));
  HR_CHECK(judge(fd.get(), path, true));
  return fd;
}

}  // namespace hitchrail::store
