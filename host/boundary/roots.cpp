#include "boundary/roots.hpp"

#include <fcntl.h>

#include <sys/vfs.h>

#include <algorithm>
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

// Whether another machine serves the file system: what it does there is no local handle's business.
bool served_elsewhere(int fd) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) {
    return false;
  }
  static constexpr std::uint32_t kinds[] = {0x6969,     0x517b,     0xfe534d42, 0xff534d42,
                                            0x564c,     0x5346414f, 0x73757245, 0x00c36400,
                                            0x01021997, 0x65735546, 0x0bd00bd0};
  return std::any_of(std::begin(kinds), std::end(kinds),
                     [&](std::uint32_t kind) { return static_cast<std::uint32_t>(info.f_type) == kind; });
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
  root.remote = served_elsewhere(opened.value().get());
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

}  // namespace hitchrail::boundary
