// recheck_scan(): the second look. Every directory and every file that was seen is asked for its ctime; only
// what changed is listed again, and anything that could matter is left to a whole new scan.
//
// Why this is enough: a new name changes its directory, a new link to a file seen here changes that file, and
// neither's ctime can be set. A directory that had changed shortly before it was listed counts as changed,
// because within one clock tick a second change does not show.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "boundary/scan_walk.hpp"
#include "core/text.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t chunk = 64;  // directories that a thread takes at once

Error appeared(const char* code, const std::string& path, const char* detail) {
  return Error{ErrorClass::refused, code, "re-check roots", path, detail, "Start again."};
}

const Root* find(const std::vector<Root>& sorted, const std::string& path) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), path,
                                   [](const Root& root, const std::string& p) { return root.path < p; });
  return at != sorted.end() && at->path == path ? &*at : nullptr;
}

class Again {
 public:
  explicit Again(const Scan& scan) : scan_(scan), memory_(*scan.memory) {}

  // True: nothing changed that could matter.
  Result<bool> quiet() {
    for (const WalkRoot& root : memory_.plan.roots) {
      HR_TRY(opened, open_walk_root(root.root));
      roots_.push_back(std::move(opened));
    }
    std::vector<std::thread> helpers;
    const std::size_t useful = memory_.directories.size() / (2 * chunk);
    try {
      for (std::size_t i = 1; i < std::min<std::size_t>(memory_.plan.threads, useful); ++i) {
        helpers.emplace_back([this] { work(); });
      }
    } catch (const std::system_error&) {
      // No thread to be had: those that are there do it all.
    }
    work();
    for (std::thread& helper : helpers) {
      helper.join();
    }
    return !doubt_;
  }

 private:
  void work() {
    for (;;) {
      const std::size_t begin = next_.fetch_add(chunk);
      if (begin >= memory_.directories.size() || doubt_) {
        return;
      }
      const std::size_t end = std::min(begin + chunk, memory_.directories.size());
      for (std::size_t i = begin; i < end && !doubt_; ++i) {
        if (!same(memory_.directories[i])) {
          doubt_ = true;
        }
      }
    }
  }

  bool same(const SeenDirectory& seen) const {
    const Fd directory = open_below(roots_[seen.root].get(), seen.path, O_PATH | O_DIRECTORY);
    Stat now;
    if (!directory || !look(directory.get(), "", now) || now.identity != seen.identity) {
      return false;
    }
    if (seen.ctime_ns == 0 || now.ctime_ns != seen.ctime_ns) {
      return listed_again(seen);
    }
    for (const SeenFile& file : seen.files) {
      Stat info;
      if (!look(directory.get(), seen.names.c_str() + file.name, info) || info.identity.ino != file.ino) {
        return false;
      }
      const bool changed = info.links != file.links || info.ctime_ns != file.ctime_ns;
      if (changed && (info.links > 1 || file.links > 1 || is_set_id(info))) {
        return false;
      }
    }
    return true;
  }

  static bool is_set_id(const Stat& info) {
    return S_ISREG(info.mode) && (info.mode & (S_ISUID | S_ISGID)) != 0;
  }

  bool listed_again(const SeenDirectory& seen) const {
    const WalkRoot& root = memory_.plan.roots[seen.root];
    const Fd directory = open_below(roots_[seen.root].get(), seen.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!directory || std::any_of(seen.files.begin(), seen.files.end(),
                                  [](const SeenFile& file) { return file.links > 1; })) {
      return false;
    }
    std::unordered_set<std::string_view> known;
    for (const std::uint32_t at : seen.others) {
      known.insert(seen.names.c_str() + at);
    }
    const std::string path =
        seen.path.empty() ? root.root.path : joined_path(root.root.path, seen.path.c_str());
    std::size_t met = 0;
    bool fine = true;
    const int error = list_names(directory.get(), [&](const char* name, unsigned char type) {
      const std::string at = joined_path(path, name);
      if ((seen.path.empty() && root.protects && is_protected_name(name)) ||
          memory_.plan.stop.count(at) != 0) {
        return true;
      }
      if ((git_part(name) & ~git_own) != 0 && root.writable) {
        fine = false;  // what git takes for a repository is for a new scan
        return false;
      }
      const bool listed = known.count(name) != 0;
      met += listed ? 1 : 0;
      fine = type != DT_UNKNOWN && unharmful(root, directory.get(), name, at, type, listed);
      return fine;
    });
    return error == 0 && fine && met == known.size();
  }

  bool unharmful(const WalkRoot& root, int directory, const char* name, const std::string& path,
                 unsigned char type, bool listed) const {
    const bool git = root.writable && std::strcmp(name, ".git") == 0;
    if (git || (memory_.plan.masking && is_masked_name(name, type))) {
      const Root* before = find(git ? scan_.nested_git : scan_.masks, path);
      Stat info;
      return before != nullptr && look(directory, name, info) && info.identity == before->identity;
    }
    if (type == DT_DIR) {
      return listed;  // what lies below a new one is for a new scan
    }
    Stat info;
    return type == DT_LNK || !root.writable ||
           (look(directory, name, info) && info.links == 1 && !S_ISSOCK(info.mode) && !is_set_id(info));
  }

  const Scan& scan_;
  const ScanMemory& memory_;
  std::vector<Fd> roots_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> doubt_{false};
};

// Of two sorted lists.
Status compare(const std::vector<Root>& before, const std::vector<Root>& now, const char* new_code,
               const char* changed_code, const char* what) {
  for (const Root& each : now) {
    const Root* old = find(before, each.path);
    if (old == nullptr) {
      return appeared(new_code, each.path, what);
    }
    if (old->identity != each.identity) {
      return appeared(changed_code, each.path, what);
    }
  }
  for (const Root& each : before) {
    if (find(now, each.path) == nullptr) {
      return appeared(changed_code, each.path, what);
    }
  }
  return {};
}

}  // namespace

Status recheck_mounts(const Scan& scan) {
  const std::vector<Root>& granted = scan.memory->granted;
  HR_TRY(mounts, read_mounts());
  if (mount_topology(mounts, granted) != scan.topology) {
    return appeared("mounts-changed", granted.empty() ? "" : granted.front().path,
                    "A file system was mounted or unmounted below a granted root.");
  }
  return {};
}

Status recheck_scan(const Scan& scan) {
  const ScanMemory& memory = *scan.memory;
  HR_CHECK(recheck_mounts(scan));
  HR_TRY(quiet, Again(scan).quiet());
  if (quiet) {
    auto found = listening(memory, scan.masks, {});
    return found ? Status(std::move(*found)) : Status{};
  }
  HR_TRY(now, boundary::scan(memory.preset, memory.roots, memory.limits));
  if (!now.refusals.empty()) {
    return std::move(now.refusals.front());
  }
  HR_CHECK(compare(scan.nested_git, now.nested_git, "nested-git-appeared", "nested-git-changed",
                   "A nested git directory was made, replaced or removed while the launch went on."));
  return compare(scan.masks, now.masks, "dotfile-appeared", "dotfile-changed",
                 "A dotfile was made, replaced or removed while the launch went on.");
}

}  // namespace hitchrail::boundary
