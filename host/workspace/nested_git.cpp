#include "workspace/nested_git.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "pathfs/raw.hpp"
#include "pathfs/walk.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxEntries = 250'000;
constexpr std::size_t kMaxDepth = 256;
constexpr std::size_t kMaxReported = 64;
constexpr std::array<std::string_view, 3> opened_by_git{".gitignore", ".gitattributes", ".gitmodules"};

class Search {
 public:
  Search(NestedGit& found, std::int64_t since_unix_ms)
      : found_(found), since_ns_(since_unix_ms * 1'000'000) {}

  Status run(int root) {
    const pathfs::WalkLimits limits{kMaxDepth, kMaxEntries, kMaxEntries};
    const auto walked = pathfs::walk(root, "", limits, [this](const pathfs::Visit& visit) {
      if (visit.name == "HEAD" && !visit.parent.empty()) {
        look_at_repository(visit);
      }
      if (visit.name != ".git") {
        if (visit.name.front() == '.') {
          if (visit.type == pathfs::FileType::other && found_.blocking.size() < kMaxReported &&
              std::find(opened_by_git.begin(), opened_by_git.end(), visit.name) != opened_by_git.end()) {
            found_.blocking.push_back(visit.path());
          }
          look_at_dotfile(visit);
        }
        return pathfs::Next::go_on;
      }
      if (!visit.parent.empty()) {
        look_at(visit);
      }
      return pathfs::Next::skip;
    });
    if (walked.has_error() && !pathfs::is(walked.error(), pathfs::Code::walk_limit)) {
      return walked.error();
    }
    found_.complete = walked.has_value() && walked.value().unreadable == 0;
    return {};
  }

 private:
  [[nodiscard]] bool newer(const Result<pathfs::Identity>& identity) const {
    if (identity.has_error()) {  // what cannot be looked at counts as changed
      return !pathfs::is(identity.error(), pathfs::Code::not_found) &&
             !pathfs::is(identity.error(), pathfs::Code::not_directory);
    }
    return identity.value().type != pathfs::FileType::absent && identity.value().changed_ns >= since_ns_;
  }

  // A folder of which only the contents changed is no new name: its time of birth tells, where there is one.
  void look_at_dotfile(const pathfs::Visit& visit) {
    constexpr std::array<std::string_view, 4> held{".agents", ".codex", ".claude", ".hitchrail"};
    if (visit.parent.empty() && std::find(held.begin(), held.end(), visit.name) != held.end()) {
      return;
    }
    pathfs::raw::Stat info;
    if (!pathfs::raw::look(visit.directory, visit.name.c_str(), info)) {
      return;
    }
    if (!came(info)) {
      return;
    }
    ++found_.dot_count;
    if (found_.dot_names.size() < kMaxReported) {
      found_.dot_names.push_back(visit.path());
    }
  }

  void look_at(const pathfs::Visit& visit) {
    bool changed = newer(pathfs::identify_at(visit.directory, ".git"));
    if (auto git = pathfs::open_directory_beneath(visit.directory, ".git"); git.has_value()) {
      changed = changed || newer_inside(git.value().get());
    }
    report(changed, visit.path());
  }

  // A directory of any name that git takes for a repository: HEAD, and objects and refs or a commondir.
  void look_at_repository(const pathfs::Visit& visit) {
    pathfs::raw::Stat objects, refs, common;
    const bool both = pathfs::raw::look(visit.directory, "objects", objects) &&
                      pathfs::raw::look(visit.directory, "refs", refs);
    if (!both && !pathfs::raw::look(visit.directory, "commondir", common)) {
      return;
    }
    const bool made = both && (came(objects) || came(refs));
    report(made || newer(pathfs::identify_at(visit.directory, "HEAD")) || newer_inside(visit.directory),
           visit.parent);
  }

  // Not one that only got other contents: objects come into a repository of the operator's, too.
  [[nodiscard]] bool came(const pathfs::raw::Stat& info) const {
    const bool old_folder = S_ISDIR(info.mode) && info.born_ns != 0 && info.born_ns < since_ns_ &&
                            info.modified_ns == info.changed_ns;
    return info.changed_ns >= since_ns_ && !old_folder;
  }

  [[nodiscard]] bool newer_inside(int git) const {
    for (const char* name : {"config", "config.worktree", "commondir", "hooks", "info", "info/attributes"}) {
      if (newer(pathfs::identify_beneath(git, name))) {
        return true;
      }
    }
    return newer_hook(git);
  }

  void report(bool changed, const std::string& path) {
    if (changed && found_.changed.size() < kMaxReported) {
      found_.changed.push_back(path);
    }
  }

  [[nodiscard]] bool newer_hook(int git) const {
    auto hooks = pathfs::open_directory_beneath(git, "hooks");
    if (hooks.has_error()) {
      return false;
    }
    const auto names = pathfs::list_directory(hooks.value().get());
    return names.has_error() ||
           std::any_of(names.value().begin(), names.value().end(), [&](const auto& name) {
             return newer(pathfs::identify_at(hooks.value().get(), name));
           });
  }

  NestedGit& found_;
  std::int64_t since_ns_;
};

}  // namespace

Result<NestedGit> changed_nested_git(int worktree_root, std::int64_t since_unix_ms) {
  NestedGit found;
  HR_CHECK(Search(found, since_unix_ms).run(worktree_root));
  std::sort(found.changed.begin(), found.changed.end());
  std::sort(found.dot_names.begin(), found.dot_names.end());
  return found;
}

}  // namespace hitchrail::workspace
