#include "workspace/discover.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "core/file.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxPointer = 8192;  // .git files, commondir, gitdir: one path
constexpr std::size_t kMaxConfig = 1u << 20;

Error foreign_gitdir(const std::string& root, const std::string& detail) {
  return refused("worktree-gitdir-foreign", root + "/.git", detail,
                 "run `git worktree repair` in the main repository, or use a plain clone");
}

// HEAD, objects and refs: what git takes for a git directory. A link in one of these places is judged later.
Result<bool> looks_like_git_dir(int dirfd) {
  for (const char* name : {"HEAD", "objects", "refs"}) {
    HR_TRY(identity, pathfs::identify_at(dirfd, name));
    if (identity.type == pathfs::FileType::absent) {
      return false;
    }
  }
  return true;
}

Result<std::string> read_pointer(int dirfd, const std::string& name, std::string_view prefix) {
  HR_TRY(text, read_metadata(dirfd, name, kMaxPointer));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  if (text.size() <= prefix.size() || std::string_view(text).substr(0, prefix.size()) != prefix ||
      text.find('\0') != std::string::npos || text.find('\n') != std::string::npos) {
    return metadata_unsafe(name, "it does not hold one path");
  }
  return text.substr(prefix.size());
}

std::string below(const std::string& base, const std::string& path) {
  return path.front() == '/' ? path : (base == "/" ? "/" + path : base + "/" + path);
}

Result<pathfs::Resolved> resolve_pointer(const std::string& base, const std::string& path,
                                         const std::string& root) {
  auto out = pathfs::resolve_directory(below(base, path));
  if (out.has_error()) {
    return foreign_gitdir(root, "its git directory \"" + path + "\" cannot be opened: " + out.error().detail);
  }
  return out;
}

Result<pathfs::Resolved> again(const pathfs::Resolved& other) {
  pathfs::Resolved out;
  out.fd.reset(::fcntl(other.fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!out.fd) {
    return errno_error("duplicate descriptor", other.path, errno);
  }
  out.path = other.path;
  out.identity = other.identity;
  return out;
}

// A linked worktree: GITDIR/commondir names the common directory, COMMON/worktrees/NAME is GITDIR, and
// GITDIR/gitdir is the path of the root's own .git file.
Status verify_linked(Found& found) {
  HR_TRY(pointer, read_pointer(found.git_dir.fd.get(), "commondir", ""));
  HR_TRY(common, resolve_pointer(found.git_dir.path, pointer, found.root.path));
  const std::string name = found.git_dir.path.substr(found.git_dir.path.rfind('/') + 1);
  auto back = pathfs::open_directory_beneath(common.fd.get(), "worktrees/" + name);
  if (back.has_error()) {
    return foreign_gitdir(found.root.path,
                          "the repository " + common.path + " has no worktree \"" + name + "\"");
  }
  HR_TRY(back_id, pathfs::identify(back.value().get()));
  if (!back_id.same_file(found.git_dir.identity)) {
    return foreign_gitdir(found.root.path,
                          "the repository " + common.path + " has another worktree of that name");
  }
  HR_TRY(owner, read_pointer(found.git_dir.fd.get(), "gitdir", ""));
  const std::string file = below(found.git_dir.path, owner);
  const std::size_t slash = file.rfind('/');
  if (file.substr(slash + 1) != ".git") {
    return foreign_gitdir(found.root.path, "its git directory belongs to \"" + owner + "\"");
  }
  auto home = pathfs::resolve_directory(slash == 0 ? "/" : file.substr(0, slash));
  if (home.has_error() || !home.value().identity.same_file(found.root.identity)) {
    return foreign_gitdir(found.root.path, "its git directory belongs to \"" + owner + "\"");
  }
  found.common_dir = std::move(common);
  found.kind = WorktreeKind::linked;
  return {};
}

Status follow_git_file(Found& found) {
  HR_TRY(pointer, read_pointer(found.root.fd.get(), ".git", "gitdir: "));
  HR_TRY(git_dir, resolve_pointer(found.root.path, pointer, found.root.path));
  HR_TRY(commondir, pathfs::identify_at(git_dir.fd.get(), "commondir"));
  found.git_dir = std::move(git_dir);
  if (commondir.type != pathfs::FileType::absent) {
    return verify_linked(found);
  }
  HR_TRY(looks, looks_like_git_dir(found.git_dir.fd.get()));
  if (!looks) {
    return foreign_gitdir(found.root.path, found.git_dir.path + " is not a git directory");
  }
  found.kind = WorktreeKind::submodule;  // its core.worktree must point back: check_belongs()
  HR_TRY(common, again(found.git_dir));
  found.common_dir = std::move(common);
  return {};
}

// Does this directory hold a repository? Fills `found` when it does.
Result<bool> try_directory(Found& found) {
  const int root = found.root.fd.get();
  HR_TRY(dot_git, pathfs::identify_at(root, ".git"));
  switch (dot_git.type) {
    case pathfs::FileType::absent:
      break;
    case pathfs::FileType::symlink:
      return metadata_unsafe(found.root.path + "/.git", "it is a symbolic link");
    case pathfs::FileType::other:
      return metadata_unsafe(found.root.path + "/.git", "it is neither a directory nor a regular file");
    case pathfs::FileType::regular:
      HR_CHECK(follow_git_file(found));
      return true;
    case pathfs::FileType::directory: {
      HR_TRY(fd, pathfs::open_directory_beneath(root, ".git"));
      HR_TRY(looks, looks_like_git_dir(fd.get()));
      if (looks) {  // else git goes on looking above, and so do we
        found.git_dir.fd = std::move(fd);
        found.git_dir.path = below(found.root.path, ".git");
        HR_TRY(identity, pathfs::identify(found.git_dir.fd.get()));
        found.git_dir.identity = identity;
        found.kind = WorktreeKind::plain;
        HR_TRY(common, again(found.git_dir));
        found.common_dir = std::move(common);
        return true;
      }
      break;
    }
  }
  HR_TRY(bare, looks_like_git_dir(root));
  if (bare) {
    return refused("worktree-bare", found.root.path,
                   "it is a git directory or a bare repository, not a worktree",
                   "name a worktree: `git worktree add DIR` makes one");
  }
  return false;
}

Result<bool> step_up(Found& found) {
  auto opened = pathfs::open_parent(found.root.fd.get());
  if (opened.has_error()) {
    return false;  // not ours to read: nothing above can be the operator's repository
  }
  Fd up = std::move(opened).value();
  HR_TRY(identity, pathfs::identify(up.get()));
  // As git: the search ends at "/" and at the border of a file system.
  if (identity.same_file(found.root.identity) || identity.device != found.root.identity.device) {
    return false;
  }
  const std::size_t slash = found.root.path.rfind('/');
  const std::string name = found.root.path.substr(slash + 1);
  found.subdirectory = found.subdirectory.empty() ? name : name + "/" + found.subdirectory;
  found.root.path = slash == 0 ? "/" : found.root.path.substr(0, slash);
  found.root.fd = std::move(up);
  found.root.identity = identity;
  return true;
}

}  // namespace

Error refused(const char* code, std::string object, std::string detail, std::string remedy) {
  return Error{ErrorClass::refused, code, "open worktree", std::move(object), std::move(detail),
               std::move(remedy)};
}

Result<Found> discover(pathfs::Resolved start) {
  Found found;
  const std::string given = start.path;
  found.root = std::move(start);
  while (true) {
    HR_TRY(here, try_directory(found));
    if (here) {
      return found;
    }
    HR_TRY(more, step_up(found));
    if (!more) {
      return refused("worktree-not-a-repository", given,
                     "neither it nor a directory above it is a git repository",
                     "run `git init` there, or name a directory of a repository");
    }
  }
}

Result<GitConfig> read_config(const Found& found) {
  HR_TRY(text, read_metadata(found.common_dir.fd.get(), "config", kMaxConfig));
  HR_TRY(config, GitConfig::parse(text, found.common_dir.path + "/config"));
  if (config.get_bool("extensions.worktreeconfig", false)) {
    HR_TRY(own, read_metadata(found.git_dir.fd.get(), "config.worktree", kMaxConfig));
    HR_TRY(later, GitConfig::parse(own, found.git_dir.path + "/config.worktree"));
    config.append(later);
  }
  return config;
}

Status check_belongs(const Found& found, const GitConfig& config) {
  if (found.kind == WorktreeKind::linked) {
    return {};  // verified by the two pointers; core.bare and core.worktree are the main worktree's
  }
  const std::optional<std::string> elsewhere = config.get("core.worktree");
  if (elsewhere && !elsewhere->empty()) {
    auto home = pathfs::resolve_directory(below(found.git_dir.path, *elsewhere));
    if (home.has_error() || !home.value().identity.same_file(found.root.identity)) {
      return refused("worktree-core-worktree", found.git_dir.path + "/config",
                     "core.worktree says that the files are elsewhere: \"" + *elsewhere + "\"",
                     "remove core.worktree from the repository's configuration, or name that directory");
    }
    return {};
  }
  if (found.kind == WorktreeKind::submodule) {
    return foreign_gitdir(found.root.path,
                          found.git_dir.path + " does not say that it belongs to this directory");
  }
  if (config.get_bool("core.bare", false)) {
    return refused("worktree-bare", found.root.path, "core.bare is set: the repository has no worktree here",
                   "name a worktree: `git worktree add DIR` makes one");
  }
  return {};
}

}  // namespace hitchrail::workspace
