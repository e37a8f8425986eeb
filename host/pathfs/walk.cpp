#include "pathfs/walk.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <utility>

#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr std::size_t kMaxNamed = 64;

class Walker {
 public:
  Walker(int root, const WalkLimits& limits, const std::function<Next(const Visit&)>& visitor)
      : root_(root), limits_(limits), visitor_(visitor) {}

  Result<Walked> run(const std::string& start) {
    if (!start.empty()) {
      HR_CHECK(check_relative("walk", start));
    }
    waiting_.push_back({start, 0});
    bool first = true;
    while (!waiting_.empty() && !out_.stopped) {
      const Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      auto opened = open(next.path);
      if (opened.has_error()) {
        if (first) {
          return opened.error();
        }
        unreadable(next.path);
        continue;
      }
      first = false;
      HR_CHECK(read(std::move(opened).value(), next));
    }
    return std::move(out_);
  }

 private:
  struct Waiting {
    std::string path;
    std::size_t depth;
  };

  // From the root each time: a descriptor a level would be as many as somebody else likes.
  [[nodiscard]] Result<Fd> open(const std::string& path) const {
    if (!path.empty()) {
      return open_directory_beneath(root_, path);
    }
    Fd out(::openat(root_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!out) {
      return system_error("open directory", ".", errno);
    }
    return out;
  }

  Status read(Fd fd, const Waiting& at) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
    if (!directory) {
      return system_error("open directory", at.path, errno);
    }
    const int dirfd = fd.release();  // closedir closes it
    ++out_.directories;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        HR_CHECK(take(dirfd, at, name, entry->d_type));
        if (out_.stopped) {
          return {};
        }
      }
      errno = 0;
    }
    if (errno != 0) {
      unreadable(at.path);
    }
    return {};
  }

  Status take(int dirfd, const Waiting& at, const std::string& name, unsigned char kind) {
    if (out_.entries >= limits_.entries) {
      return limit(at.path, std::to_string(limits_.entries) + " entries");
    }
    const FileType type = type_in(dirfd, name, kind);
    if (type == FileType::absent) {
      return {};  // gone since it was listed
    }
    ++out_.entries;
    const Visit visit{dirfd, at.path, name, type};
    const Next next = visitor_(visit);
    out_.stopped = next == Next::stop;
    if (type != FileType::directory || next != Next::go_on) {
      return {};
    }
    if (at.depth >= limits_.depth) {
      return limit(visit.path(), std::to_string(limits_.depth) + " levels");
    }
    if (out_.directories + waiting_.size() >= limits_.directories) {
      return limit(visit.path(), std::to_string(limits_.directories) + " directories");
    }
    waiting_.push_back({visit.path(), at.depth + 1});
    return {};
  }

  static FileType type_in(int dirfd, const std::string& name, unsigned char kind) {
    switch (kind) {
      case DT_REG:
        return FileType::regular;
      case DT_DIR:
        return FileType::directory;
      case DT_LNK:
        return FileType::symlink;
      case DT_UNKNOWN: {
        const auto identity = identify_at(dirfd, name);
        return identity.has_value() ? identity.value().type : FileType::other;
      }
      default:
        return FileType::other;
    }
  }

  void unreadable(const std::string& path) {
    ++out_.unreadable;
    if (out_.unreadable_paths.size() < kMaxNamed) {
      out_.unreadable_paths.push_back(path);
    }
  }

  static Error limit(const std::string& path, const std::string& what) {
    return make_error(Code::walk_limit, "walk", path, "more than " + what);
  }

  int root_;
  WalkLimits limits_;
  const std::function<Next(const Visit&)>& visitor_;
  std::deque<Waiting> waiting_;
  Walked out_;
};

}  // namespace

Result<Walked> walk(int root, const std::string& start, const WalkLimits& limits,
                    const std::function<Next(const Visit&)>& visitor) {
  return Walker(root, limits, visitor).run(start);
}

Result<FindResult> find(int root, const std::string& start, const WalkLimits& limits) {
  FindResult out;
  HR_TRY(walked, walk(root, start, limits, [&out](const Visit& visit) {
           const auto identity = identify_at(visit.directory, visit.name);
           if (identity.has_error()) {  // a directory that may be listed and not searched hides nothing
             out.entries.push_back({visit.path(), Identity{}});
             out.entries.back().identity.type = visit.type;
           } else if (identity.value().type != FileType::absent) {
             out.entries.push_back({visit.path(), identity.value()});
           }
           return Next::go_on;
         }));
  std::sort(out.entries.begin(), out.entries.end(),
            [](const Found& a, const Found& b) { return a.path < b.path; });
  out.unreadable = std::move(walked.unreadable_paths);
  return out;
}

}  // namespace hitchrail::pathfs
