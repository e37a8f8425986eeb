// The documents below worktrees/ of the state home, and their locks.

#include "workspace/worktree_manifest.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <map>
#include <thread>

#include "core/file.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "store/store.hpp"

namespace hitchrail::workspace {
namespace {

constexpr const char* kFolder = "worktrees";
constexpr const char* kPrefix = "worktree_";
constexpr std::string_view kSuffix = ".json";
constexpr std::size_t kMaxDocument = 1u << 20;

bool is_id(const std::string& text) {
  return text.starts_with(kPrefix) && text.size() == 9 + 18 &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string::npos;
}

Error not_found(const std::string& name) {
  return Error{ErrorClass::usage,
               "worktree-not-found",
               "find worktree",
               name,
               "Hitchrail made no worktree of this id or path, or it is removed",
               "hitchrail worktrees list"};
}

store::ManagedWorktree projection(const WorktreeManifest& m, const std::string& digest) {
  return {m.id,
          m.revision,
          escape_visible(m.path),
          escape_visible(m.branch),
          escape_visible(m.repository.common_git_dir),
          m.lease.owner_attempt_id,
          m.creation,
          m.cleanup,
          digest};
}

Result<WorktreeLock> take(int folder, const std::string& name, int wait_ms) {
  HR_TRY(fd, open_at(folder, name + ".lock", O_RDWR | O_CREAT | O_NONBLOCK, 0600));
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return errno_error("lock worktree", name, errno);
    }
    if (std::chrono::steady_clock::now() >= until) {
      return Error{ErrorClass::refused,
                   "worktree-locked",
                   "lock worktree",
                   name,
                   "another hitchrail works on it now",
                   "wait for it and try again"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WorktreeLock(std::move(fd));
}

}  // namespace

Result<WorktreeManifests> WorktreeManifests::open(int state_dirfd, store::Access access) {
  WorktreeManifests out;
  out.state_.reset(::fcntl(state_dirfd, F_DUPFD_CLOEXEC, 3));
  if (access == store::Access::write && ::mkdirat(state_dirfd, kFolder, 0700) != 0 && errno != EEXIST) {
    return errno_error("make directory", kFolder, errno);
  }
  auto folder = open_at(state_dirfd, kFolder, O_RDONLY | O_DIRECTORY);
  if (folder.has_error()) {
    if (folder.error().code == "enoent" && access == store::Access::read) {
      return out;
    }
    return folder.error();
  }
  struct stat info {};
  if (::fstat(folder.value().get(), &info) != 0) {
    return errno_error("stat", kFolder, errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0) {
    return Error{ErrorClass::refused,    "state-directory-shared",       "open", kFolder,
                 "it is not ours alone", "chmod 700 it, or move it away"};
  }
  out.folder_ = std::move(folder).value();
  return out;
}

Result<std::vector<std::string>> WorktreeManifests::ids() const {
  std::vector<std::string> out;
  if (!folder_) {
    return out;
  }
  HR_TRY(names, list_directory(folder_.get()));
  for (const std::string& name : names) {
    if (name.ends_with(kSuffix) && is_id(name.substr(0, name.size() - kSuffix.size()))) {
      out.push_back(name.substr(0, name.size() - kSuffix.size()));
    }
  }
  return out;
}

Result<WorktreeManifest> WorktreeManifests::read(const std::string& id) const {
  if (!folder_ || !is_id(id)) {
    return not_found(id);
  }
  auto text = read_file_at(folder_.get(), id + std::string(kSuffix), kMaxDocument);
  if (text.has_error()) {
    return text.error().code == "enoent" ? not_found(id) : text.error();
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, id);
  auto manifest = document.has_value() ? parse_worktree_manifest(document.value())
                                       : Result<WorktreeManifest>(document.error());
  if (manifest.has_value() && manifest.value().id == id) {
    return manifest;
  }
  return Error{ErrorClass::environment,
               "worktree-manifest-damaged",
               "read worktree manifest",
               id,
               manifest.has_error() ? manifest.error().object + ": " + manifest.error().detail
                                    : "it is the manifest of another worktree",
               "move the file away from worktrees/ of the state directory; git knows the worktree still"};
}

Result<WorktreeManifest> WorktreeManifests::find(const std::string& name) const {
  HR_TRY(known, ids());
  std::vector<std::string> hits;
  for (const std::string& id : known) {
    if (id == name) {
      return read(id);
    }
    if (!name.empty() && name.find('/') == std::string::npos &&
        (id.starts_with(name) || id.substr(9).starts_with(name))) {
      hits.push_back(id);
    }
  }
  if (hits.size() == 1) {
    return read(hits.front());
  }
  if (hits.size() > 1) {
    return Error{ErrorClass::usage,
                 "worktree-ambiguous",
                 "find worktree",
                 name,
                 "several worktrees begin with this id",
                 "give more of it"};
  }
  std::string path = name;
  if (auto resolved = pathfs::resolve_directory(name); resolved.has_value()) {
    path = resolved.value().path;
  }
  HR_TRY(manifests, all([](const std::string&, const Error&) {}));
  for (WorktreeManifest& manifest : manifests) {
    if (manifest.path == path) {
      return std::move(manifest);
    }
  }
  return not_found(name);
}

Result<std::vector<WorktreeManifest>> WorktreeManifests::all(
    const std::function<void(const std::string&, const Error&)>& damaged, bool with_removed) const {
  std::vector<WorktreeManifest> out;
  HR_TRY(known, ids());
  if (known.empty()) {
    return out;
  }
  // A removed worktree's manifest never changes again: what the projection says of it is true.
  std::map<std::string, bool> removed;
  if (auto database = store::Store::open(state_.get(), store::Access::read); database.has_value()) {
    if (auto rows = database.value().managed_worktrees(); rows.has_value()) {
      for (const auto& row : rows.value()) {
        removed[row.id] = row.cleanup == "removed";
      }
    }
  }
  for (const std::string& id : known) {
    if (!with_removed && removed[id]) {
      continue;
    }
    auto manifest = read(id);
    if (manifest.has_error()) {
      if (!damaged) {
        return manifest.error();
      }
      damaged(id, manifest.error());
    } else if (with_removed || !manifest.value().gone()) {
      out.push_back(std::move(manifest).value());
    }
  }
  return out;
}

Result<std::optional<WorktreeManifest>> WorktreeManifests::of(const Worktree& worktree) const {
  HR_TRY(manifests, all());
  const std::string registration = worktree.git_dir.substr(worktree.git_dir.rfind('/') + 1);
  for (WorktreeManifest& m : manifests) {
    const bool registered =
        worktree.common_dir == m.repository.common_git_dir && registration == m.registration;
    const bool same = !m.identity.root.empty() &&
                      same_identity(m.identity.root, m.identity.boot_id, worktree.root_id.text());
    if (m.path == worktree.root || registered || same) {
      return std::optional<WorktreeManifest>(std::move(m));
    }
  }
  return std::optional<WorktreeManifest>();
}

Result<WorktreeLock> WorktreeManifests::lock(const std::string& id, int wait_ms) const {
  return !folder_ ? Result<WorktreeLock>(not_found(id)) : take(folder_.get(), id, wait_ms);
}

Result<WorktreeLock> WorktreeManifests::lock_all(int wait_ms) const {
  return take(folder_.get(), "all", wait_ms);
}

Status WorktreeManifests::write(const WorktreeLock& lock, WorktreeManifest& manifest) const {
  if (!lock.held()) {
    return Error{ErrorClass::internal, "worktree-locked",      "write worktree manifest",
                 manifest.id,          "its lock is not held", ""};
  }
  auto stored = read(manifest.id);
  if (stored.has_error() && stored.error().code != "worktree-not-found") {
    return stored.error();
  }
  if ((stored.has_value() ? stored.value().revision : 0) != manifest.revision) {
    return Error{ErrorClass::failed, "worktree-manifest-conflict",           "write worktree manifest",
                 manifest.id,        "another process changed it meanwhile", "look at it again and repeat"};
  }
  WorktreeManifest next = manifest;
  ++next.revision;
  next.updated_at = iso8601(unix_millis_now());
  HR_TRY(document, worktree_manifest_json(next));
  HR_CHECK(write_file_atomic(folder_.get(), next.id + std::string(kSuffix), json::write(document, 2) + "\n"));
  manifest = std::move(next);
  // The file is the truth; a projection that could not be written costs a lookup.
  if (auto database = store::Store::open(state_.get()); database.has_value()) {
    (void)database.value().project_worktree(projection(manifest, document.get("digest").as_string()));
  }
  return {};
}

Result<Fd> WorktreeManifests::make_scratch(const std::string& id) const {
  const std::string name = id + ".scratch";
  HR_CHECK(remove_tree_at(folder_.get(), name));
  if (::mkdirat(folder_.get(), name.c_str(), 0700) != 0) {
    return errno_error("make directory", name, errno);
  }
  return open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY);
}

Status WorktreeManifests::remove_scratch(const std::string& id) const {
  return remove_tree_at(folder_.get(), id + ".scratch");
}

Result<std::string> WorktreeManifests::scratch_path(const std::string& id) const {
  std::string path(PATH_MAX, '\0');
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(folder_.get())).c_str(), path.data(), path.size());
  if (size <= 0) {
    return errno_error("find the state directory", kFolder, size < 0 ? errno : ENOENT);
  }
  path.resize(static_cast<std::size_t>(size));
  return path + "/" + id + ".scratch";
}

}  // namespace hitchrail::workspace
