#include "boundary/roots.hpp"

#include <fcntl.h>

#include <climits>
#include <cstdlib>

#include "boundary/internal.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::boundary {
namespace {

Error alias_error(const std::string& path, std::string detail) {
  return Error{ErrorClass::refused, "root-alias",
               "resolve root",      path,
               std::move(detail),   "Name the directory by its own path, without links (see: realpath)."};
}

bool canonical_text(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
    return false;
  }
  if (path == "/") {
    return true;
  }
  std::size_t start = 1;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part(path.data() + start, end - start);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    start = end + 1;
  }
  return true;
}

EntryKind kind_of(pathfs::FileType type) {
  switch (type) {
    case pathfs::FileType::absent:
      return EntryKind::absent;
    case pathfs::FileType::directory:
      return EntryKind::directory;
    case pathfs::FileType::regular:
      return EntryKind::file;
    case pathfs::FileType::symlink:
      return EntryKind::symlink;
    case pathfs::FileType::other:
      break;
  }
  return EntryKind::other;
}

constexpr std::size_t max_entries = 4096;

}  // namespace

bool contains(const std::string& outer, const std::string& inner) {
  if (outer == "/" || outer == inner) {
    return true;
  }
  return inner.size() > outer.size() && inner.compare(0, outer.size(), outer) == 0 &&
         inner[outer.size()] == '/';
}

const std::array<const char*, 5>& protected_names() {
  static const std::array<const char*, 5> names{".git", ".agents", ".codex", ".claude", ".hitchrail"};
  return names;
}

Result<Root> resolve_root(const std::string& path, bool want_directory) {
  if (!canonical_text(path)) {
    return alias_error(path, "The path is not absolute and canonical.");
  }
  auto opened = pathfs::open_absolute(path, O_PATH);
  if (opened.has_error()) {
    if (pathfs::is(opened.error(), pathfs::Code::symlink_rejected)) {
      return alias_error(path, "A component of the path is a symbolic link.");
    }
    if (pathfs::is(opened.error(), pathfs::Code::not_found) ||
        pathfs::is(opened.error(), pathfs::Code::not_directory)) {
      return Error{ErrorClass::refused, "root-missing", "resolve root", path, "It does not exist.", ""};
    }
    return opened.error();
  }
  HR_TRY(found, pathfs::identify(opened.value().get()));
  const bool directory = found.type == pathfs::FileType::directory;
  if (want_directory && !directory) {
    return Error{
        ErrorClass::refused, "root-not-directory", "resolve root", path, "It is not a directory.", ""};
  }
  Root root;
  root.path = path;
  root.identity = {found.device, found.inode};
  root.directory = directory;
  root.uid = found.uid;
  root.gid = found.gid;
  return root;
}

Result<Root> resolve_trusted(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) {
    return errno_error("resolve", path, errno);
  }
  const std::string canonical(resolved);
  std::free(resolved);
  return resolve_root(canonical, false);
}

Result<WritableRoot> inspect_writable_root(const std::string& path) {
  HR_TRY(root, resolve_root(path));
  HR_TRY(directory, pathfs::open_absolute(path, O_RDONLY | O_DIRECTORY));
  WritableRoot writable;
  writable.root = root;
  HR_TRY(names, pathfs::list_directory(directory.get()));
  writable.too_many_entries = names.size() > max_entries;
  for (const std::string& name : names) {
    const bool is_protected = std::any_of(protected_names().begin(), protected_names().end(),
                                          [&](const char* p) { return name == p; });
    if (writable.entries.size() >= max_entries && !is_protected) {
      continue;
    }
    HR_TRY(found, pathfs::identify_at(directory.get(), name));
    if (found.type == pathfs::FileType::absent) {
      continue;  // gone since the listing
    }
    writable.entries.push_back({name, kind_of(found.type), {found.device, found.inode}});
  }
  return writable;
}

namespace {

// A preset's path as an absolute one; the workspace and home forms stay below their base.
Result<std::string> expand(const std::string& path, const Roots& roots) {
  const Error form{ErrorClass::usage,
                   "preset-path-form",
                   "expand preset path",
                   path,
                   "A preset path is <workspace>, <workspace>/x, ~/x or absolute, without . and ..",
                   ""};
  std::string out;
  if (path.rfind("<workspace>", 0) == 0) {
    if (!roots.worktree) {
      return form;
    }
    out = roots.worktree->root.path + path.substr(11);
  } else if (path.rfind("~/", 0) == 0) {
    out = roots.operator_home + path.substr(1);
  } else {
    out = path;
  }
  if (!canonical_text(out)) {
    return form;
  }
  return out;
}

}  // namespace

Status add_preset_paths(const Preset& preset, Roots& roots, std::vector<std::string>* absent) {
  const auto missing = [&](const Error& error, const std::string& path) {
    if (error.code != "root-missing") {
      return false;
    }
    if (absent != nullptr) {
      absent->push_back(path);
    }
    return true;
  };
  const auto add = [&](const std::vector<std::string>& paths, std::vector<Root>& to) -> Status {
    for (const std::string& path : paths) {
      HR_TRY(expanded, expand(path, roots));
      if (roots.worktree && expanded == roots.worktree->root.path && &to == &roots.read) {
        continue;
      }
      auto root = resolve_root(expanded, false);
      if (root.has_error()) {
        if (missing(root.error(), expanded)) {
          continue;
        }
        return root.error();
      }
      to.push_back(root.value());
    }
    return {};
  };
  HR_CHECK(add(preset.read_paths, roots.read));
  HR_CHECK(add(preset.denied_paths, roots.denied));
  HR_CHECK(add(preset.stores, roots.stores));
  bool worktree_writable = false;
  for (const std::string& path : preset.write_paths) {
    HR_TRY(expanded, expand(path, roots));
    if (roots.worktree && expanded == roots.worktree->root.path) {
      worktree_writable = true;
      continue;
    }
    HR_TRY(root, inspect_writable_root(expanded));
    roots.write.push_back(std::move(root));
  }
  roots.worktree_read_only = !worktree_writable;
  return {};
}

}  // namespace hitchrail::boundary
