#include "boundary/recheck.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "boundary/internal.hpp"
#include "boundary/scan.hpp"
#include "boundary/scan_walk.hpp"
#include "core/file.hpp"

namespace hitchrail::boundary {
namespace {

Error changed(const char* code, const std::string& path, std::string detail) {
  return Error{ErrorClass::refused, code, "re-check boundary", path, std::move(detail), "Start again."};
}

// `absent` when nothing is there; a link on the way counts as another thing, not as nothing.
Result<Root> now_at(const std::string& path) {
  return resolve_root(path, false);
}

// By identity: also of a link, when that is what was seen.
Status same_root(const Root& root, const char* code, const char* what) {
  Stat now;
  if (!look_at(root.path, now)) {
    return changed(
        code, root.path,
        std::string(what) + (errno == ELOOP ? ": its path leads through a link now." : ": it is gone."));
  }
  if (now.identity != root.identity || S_ISDIR(now.mode) != root.directory) {
    return changed(code, root.path, std::string(what) + ": something else is at its path now.");
  }
  return {};
}

Status same_roots(const std::vector<Root>& roots, const char* code, const char* what) {
  for (const Root& root : roots) {
    HR_CHECK(same_root(root, code, what));
  }
  return {};
}

Status check_protected(const Protected& name) {
  const std::string path = name.root + "/" + name.name;
  const auto now = now_at(path);
  // What an overlay holds has no place in the worktree: it must be as absent as it was.
  const bool absent = name.identity.ino == 0 || name.overlay;
  if (now.has_error() && now.error().code == "root-missing") {
    return absent ? Status{}
                  : Status(changed("protected-name-changed", path,
                                   "A protected name was removed while the launch went on."));
  }
  if (now.has_error()) {
    return now.error().code == "root-alias"
               ? changed("protected-name-symlink", path, "A protected name is a symbolic link now.")
               : changed("protected-name-changed", path, now.error().detail);
  }
  if (absent) {
    return changed("protected-name-appeared", path, "It was made while the launch went on.");
  }
  const bool was_made = name.state == EntryKind::absent;  // a placeholder: a directory
  if (now.value().identity != name.identity ||
      now.value().directory != (was_made || name.state == EntryKind::directory)) {
    return changed("protected-name-changed", path, "Something else is at its path now.");
  }
  return {};
}

Status check_executable(const Executable& executable) {
  if (executable.path.empty()) {
    return {};
  }
  const auto now = resolve_executable(executable.path);
  if (now.has_error() || now.value().identity != executable.identity) {
    return changed("executable-changed", executable.path,
                   now.has_error() ? now.error().detail : "It is another file, or was written to.");
  }
  return {};
}

}  // namespace

Status recheck(const Compiled& compiled, const Executable& executable, const RunDirectories& run,
               Recheck depth) {
  HR_CHECK(check_executable(executable));
  for (const Grant& grant : compiled.grants) {
    if (grant.role != "entry" || depth == Recheck::all) {
      HR_CHECK(same_root(grant.source, "root-changed", "A granted root changed"));
    }
  }
  for (const Protected& name : compiled.protected_names) {
    HR_CHECK(check_protected(name));
  }
  HR_CHECK(same_roots(compiled.denied, "denied-changed", "A denied path changed"));
  HR_CHECK(same_roots(compiled.masks, "dotfile-changed", "A dotfile changed"));
  HR_CHECK(same_roots(compiled.nested_git, "nested-git-changed", "A nested git directory changed"));
  for (const auto* directory : {&run.home, &run.temp, &run.git}) {
    if (*directory) {
      HR_CHECK(same_root(**directory, "run-directory-changed", "A directory of the run changed"));
    }
  }
  for (const Grant& view : run.views) {
    HR_CHECK(same_root(view.source, "run-directory-changed", "A directory of the run changed"));
  }
  if (!compiled.scan) {
    return {};
  }
  return depth == Recheck::all ? recheck_scan(*compiled.scan) : recheck_mounts(*compiled.scan);
}

}  // namespace hitchrail::boundary
