#include "workspace/nested_git.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/fd.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxEntries = 250'000;
constexpr std::size_t kMaxReported = 64;

class Walk {
 public:
  Walk(NestedGit& found, std::int64_t since_unix_ms) : found_(found), since_(since_unix_ms) {}

  // An explicit list instead of recursion: a run may have made a very deep tree. Paths are opened from the
  // root component by component, so one descriptor is open at a time.
  void run(int root) {
    std::vector<std::string> waiting{""};
    while (!waiting.empty()) {
      const std::string path = std::move(waiting.back());
      waiting.pop_back();
      Fd directory = open_below(root, path);
      if (!directory) {
        found_.complete = false;
        continue;
      }
      list(directory.get(), path, waiting);
      if (seen_ > kMaxEntries) {
        found_.complete = false;
        return;
      }
    }
  }

 private:
  static Fd open_below(int root, const std::string& path) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    Fd current(::openat(root, ".", flags));
    std::size_t begin = 0;
    while (current && begin < path.size()) {
      const std::size_t slash = std::min(path.find('/', begin), path.size());
      current = Fd(::openat(current.get(), path.substr(begin, slash - begin).c_str(), flags));
      begin = slash + 1;
    }
    return current;
  }

  void list(int directory, const std::string& path, std::vector<std::string>& waiting) {
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(::fcntl(directory, F_DUPFD_CLOEXEC, 3)),
                                               ::closedir);
    if (!stream) {
      found_.complete = false;
      return;
    }
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || (path.empty() && name == ".git")) {
        continue;
      }
      if (++seen_ > kMaxEntries) {
        return;
      }
      const std::string below = path.empty() ? name : path + "/" + name;
      if (name == ".git") {
        look_at(directory, below);
      } else if (entry->d_type == DT_DIR || (entry->d_type == DT_UNKNOWN && is_directory(directory, name))) {
        waiting.push_back(below);
      }
    }
  }

  static bool is_directory(int directory, const std::string& name) {
    struct stat status {};
    return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
  }

  bool newer(int directory, const char* name) const {
    struct stat status {};
    if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno != ENOENT && errno != ENOTDIR;  // what cannot be looked at counts as changed
    }
    return static_cast<std::int64_t>(status.st_ctim.tv_sec) * 1000 + status.st_ctim.tv_nsec / 1'000'000 >=
           since_;
  }

  void look_at(int parent, const std::string& path) {
    bool changed = newer(parent, ".git");
    Fd git(::openat(parent, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (git) {
      for (const char* name :
           {"config", "config.worktree", "commondir", "hooks", "info", "info/attributes"}) {
        changed = changed || newer(git.get(), name);
      }
      changed = changed || newer_hook(git.get());
    }
    if (changed && found_.changed.size() < kMaxReported) {
      found_.changed.push_back(path);
    }
  }

  bool newer_hook(int git) const {
    Fd hooks(::openat(git, "hooks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!hooks) {
      return false;
    }
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(hooks.release()), ::closedir);
    if (!stream) {
      return true;
    }
    while (const dirent* entry = ::readdir(stream.get())) {
      if (std::strcmp(entry->d_name, "..") != 0 && newer(::dirfd(stream.get()), entry->d_name)) {
        return true;
      }
    }
    return false;
  }

  NestedGit& found_;
  std::int64_t since_;
  std::size_t seen_ = 0;
};

}  // namespace

Result<NestedGit> changed_nested_git(int worktree_root, std::int64_t since_unix_ms) {
  NestedGit found;
  Walk(found, since_unix_ms).run(worktree_root);
  std::sort(found.changed.begin(), found.changed.end());
  return found;
}

}  // namespace hitchrail::workspace
