// Removal of a tree that somebody else may have shaped. Instead of descending (a path descriptor per level,
// and a hostile tree has more levels than we have descriptors), every non-empty directory is moved up to the
// top of the tree and waits in a queue. So three descriptors suffice for any depth, and no path longer than
// one name is ever used.

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <tuple>

#include "core/file.hpp"

namespace hitchrail {
namespace {

class TreeRemover {
 public:
  TreeRemover(int parent, std::string label) : mount_(mount_of(parent)), label_(std::move(label)) {}

  void run(int top) {
    empty_directory(top, top);
    while (!waiting_.empty()) {
      const std::string name = std::move(waiting_.front());
      waiting_.pop_front();
      Fd directory = open_directory(top, name);
      if (directory) {
        empty_directory(directory.get(), top);
        if (::unlinkat(top, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
          fail("remove directory", name, errno);
        }
      }
    }
  }

  // A directory without our read, write and search bits is given them: it is about to go.
  Fd open_directory(int parent, const std::string& name) {
    Fd path(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat st {};
    if (!path || ::fstat(path.get(), &st) != 0) {
      fail("open directory", name, errno);
      return {};
    }
    if (mount_of(path.get()) != mount_) {
      fail("enter other file system", name, EXDEV);
      return {};
    }
    if ((st.st_mode & 0700) != 0700) {
      ::chmod(("/proc/self/fd/" + std::to_string(path.get())).c_str(), (st.st_mode & 07777) | 0700);
    }
    Fd directory(::openat(path.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) {
      fail("open directory", name, errno);
    }
    return directory;
  }

  std::optional<Error> first_error;

 private:
  // Device and mount: a bind mount of the same file system is as foreign as another disk. Zero mount ids
  // before 5.8.
  using Mount = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;
  static Mount mount_of(int directory) {
    struct statx st {};
    if (::statx(directory, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) != 0) {
      return {};
    }
    return {st.stx_dev_major, st.stx_dev_minor, (st.stx_mask & STATX_MNT_ID) != 0 ? st.stx_mnt_id : 0};
  }

  void empty_directory(int directory, int top) {
    auto names = list_directory(directory);
    if (names.has_error()) {
      fail("read directory", label_, EIO);
      return;
    }
    for (const std::string& name : *names) {
      if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) {
        continue;
      }
      const int unlink_error = errno;
      struct stat st {};
      if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode)) {
        fail("remove", name, unlink_error);
      } else if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0) {
        queue(directory, top, name);
      }
    }
  }

  void queue(int directory, int top, const std::string& name) {
    if (directory == top) {
      waiting_.push_back(name);
      return;
    }
    // Moving a directory rewrites its "..", for which its own write bit is needed.
    const Fd opened = open_directory(directory, name);
    if (!opened) {
      return;
    }
    while (true) {
      std::string moved = ".removing-" + std::to_string(++counter_);
      if (::renameat2(directory, name.c_str(), top, moved.c_str(), RENAME_NOREPLACE) == 0) {
        waiting_.push_back(std::move(moved));
        return;
      }
      if (errno != EEXIST) {
        fail("move", name, errno);
        return;
      }
    }
  }

  void fail(const char* operation, const std::string& name, int error_number) {
    if (!first_error) {
      first_error = errno_error(operation, label_ + ": " + name, error_number);
    }
  }

  Mount mount_;
  std::string label_;
  std::deque<std::string> waiting_;
  std::uint64_t counter_ = 0;
};

}  // namespace

Status remove_tree_at(int dirfd, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return Error{ErrorClass::internal,
                 "not-a-file-name",
                 "remove",
                 name,
                 "one file name is needed here, not a path",
                 ""};
  }
  struct stat st {};
  if (::fstatat(dirfd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) {
      return {};
    }
    return errno_error("stat", name, errno);
  }
  if (!S_ISDIR(st.st_mode)) {
    if (::unlinkat(dirfd, name.c_str(), 0) != 0 && errno != ENOENT) {
      return errno_error("remove", name, errno);
    }
    return {};
  }
  TreeRemover remover(dirfd, name);
  const Fd top = remover.open_directory(dirfd, name);
  if (top) {
    remover.run(top.get());
    if (!remover.first_error && ::unlinkat(dirfd, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return errno_error("remove directory", name, errno);
    }
  }
  if (remover.first_error) {
    return *remover.first_error;
  }
  return {};
}

}  // namespace hitchrail
