#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "workspace/discover.hpp"
#include "workspace/refs.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxStores = 16;
constexpr std::size_t kMaxAlternates = 64u << 10;

// Settings that say how files are to be read. Nothing here can start a program or name a place.
constexpr std::array<std::string_view, 19> kHarmless = {"core.filemode",
                                                        "core.symlinks",
                                                        "core.ignorecase",
                                                        "core.precomposeunicode",
                                                        "core.autocrlf",
                                                        "core.eol",
                                                        "core.safecrlf",
                                                        "core.sparsecheckout",
                                                        "core.abbrev",
                                                        "core.sparsecheckoutcone",
                                                        "core.sharedrepository",
                                                        "core.bigfilethreshold",
                                                        "core.quotepath",
                                                        "index.version",
                                                        "index.sparse",
                                                        "i18n.commitencoding",
                                                        "merge.conflictstyle",
                                                        "user.name",
                                                        "user.email"};

bool permission_denied(const Error& error) {
  const std::string reason = pathfs::io_reason(error);
  return reason == "eacces" || reason == "eperm";
}

Error open_failed(const std::string& path, const Error& error) {
  if (pathfs::is(error, pathfs::Code::not_found)) {
    return refused("worktree-missing", path, "there is no such directory",
                   "check the path given as worktree");
  }
  if (pathfs::is(error, pathfs::Code::symlink_rejected)) {
    return refused("worktree-symlink", path, error.detail, "name the directory itself: `realpath` shows it");
  }
  if (pathfs::is(error, pathfs::Code::not_directory)) {
    return refused("worktree-not-a-directory", path, error.detail, "name a directory of a git repository");
  }
  if (permission_denied(error)) {
    return refused("worktree-unreadable", path, error.detail, "give yourself read and search permission");
  }
  Error out = error;
  out.operation = "open worktree";
  out.object = path;
  return out;
}

std::vector<std::string> home_directories() {
  std::vector<std::string> out;
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    out.emplace_back(home);
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    out.emplace_back(entry.pw_dir);
  }
  return out;
}

// The operator's own paths may go through links and may not exist yet: the deepest directory that does.
Result<pathfs::Resolved> deepest(const std::string& path, bool& whole) {
  std::error_code ignored;
  std::filesystem::path at = std::filesystem::weakly_canonical(path, ignored);
  if (at.empty()) {
    at = path;
  }
  whole = true;
  while (true) {
    auto resolved = pathfs::resolve_directory(at.string());
    if (resolved.has_value() || !at.has_relative_path()) {
      return resolved;
    }
    whole = false;
    at = at.parent_path();
  }
}

Status check_width(const pathfs::Resolved& root) {
  constexpr std::array<std::string_view, 22> kSystem = {
      "/",    "/bin", "/boot", "/dev", "/etc",  "/home", "/lib", "/lib32", "/lib64", "/libx32",    "/media",
      "/mnt", "/opt", "/proc", "/run", "/sbin", "/srv",  "/sys", "/tmp",   "/usr",   "/usr/local", "/var"};
  const char* remedy = "name a directory that holds one project";
  if (std::find(kSystem.begin(), kSystem.end(), root.path) != kSystem.end()) {
    return refused("worktree-too-wide", root.path, "a directory of the system is never a worktree", remedy);
  }
  for (const std::string& home : home_directories()) {
    bool whole = false;
    auto resolved = deepest(home, whole);
    if (resolved.has_error() || !whole) {
      continue;
    }
    HR_TRY(inside, pathfs::lies_within(resolved.value().fd.get(), root.identity));
    if (inside) {
      return refused("worktree-too-wide", root.path, "it is or contains the home directory " + home, remedy);
    }
  }
  return {};
}

Status check_apart(const pathfs::Resolved& root, const std::vector<std::string>& keep_apart) {
  for (const std::string& path : keep_apart) {
    bool whole = false;
    HR_TRY(other, deepest(path, whole));
    HR_TRY(contains, pathfs::lies_within(other.fd.get(), root.identity));
    bool inside = false;
    if (whole) {
      HR_TRY(below, pathfs::lies_within(root.fd.get(), other.identity));
      inside = below;
    }
    if (contains || inside) {
      return refused(
          "worktree-overlaps-state", root.path,
          std::string(contains ? "it contains " : "it lies in ") + path + ", which no run may reach",
          "use another worktree, or move Hitchrail's directories (HITCHRAIL_HOME)");
    }
  }
  return {};
}

Status check_owner(const Found& found, const OpenOptions& options) {
  if (options.trust_foreign_owner) {
    return {};
  }
  for (const pathfs::Resolved* part : {&found.root, &found.git_dir, &found.common_dir}) {
    if (part->identity.uid != ::geteuid()) {
      return refused("worktree-foreign-owner", part->path,
                     "it belongs to uid " + std::to_string(part->identity.uid) + ", you are uid " +
                         std::to_string(::geteuid()),
                     "run as its owner, or trust it by name: --trust-owner");
    }
  }
  return {};
}

Status check_entries(const Found& found, const OpenOptions& options) {
  using enum MetadataKind;
  const int git = found.git_dir.fd.get();
  const int common = found.common_dir.fd.get();
  for (const char* name : {"HEAD", "index", "config.worktree", "info/sparse-checkout", "logs/HEAD"}) {
    HR_CHECK(check_metadata(git, name, file));
  }
  for (const char* name : {"config", "packed-refs", "shallow", "info/exclude", "info/attributes",
                           "info/grafts", "objects/info/alternates", "objects/info/commit-graph"}) {
    HR_CHECK(check_metadata(common, name, file));
  }
  for (const char* name : {"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags",
                           "info", "hooks", "logs", "modules", "worktrees"}) {
    HR_CHECK(check_metadata(common, name, directory));
  }
  if (found.kind == WorktreeKind::plain) {
    HR_CHECK(check_metadata(git, "commondir", file));
    HR_TRY(pointer, pathfs::identify_at(git, "commondir"));
    if (pointer.type != pathfs::FileType::absent) {
      return metadata_unsafe(found.git_dir.path + "/commondir",
                             "the refs and objects of this worktree are elsewhere");
    }
  }
  // git opens these by name and waits for a writer when one is a FIFO. A link it refuses itself.
  for (const char* name : {".gitignore", ".gitattributes", ".gitmodules"}) {
    HR_TRY(identity, pathfs::identify_at(found.root.fd.get(), name));
    if (identity.type == pathfs::FileType::other && !options.allow_blocking) {
      return refused("worktree-unsafe-entry", found.root.path + "/" + name,
                     "it is a FIFO, a socket or a device, and git would wait on it for ever", "remove it");
    }
  }
  return {};
}

Result<std::string> object_format(const Found& found, const GitConfig& config) {
  const auto unsupported = [&](const std::string& detail, const char* remedy) {
    return refused("worktree-unsupported", found.common_dir.path, detail, remedy);
  };
  const std::string version = config.get("core.repositoryformatversion").value_or("0");
  if (version != "0" && version != "1") {
    return unsupported("repository format version " + version, "use a repository of format 0 or 1");
  }
  for (const auto& [key, value] : config.entries()) {
    if (key == "extensions.partialclone" || (key.starts_with("remote.") && key.ends_with(".promisor"))) {
      return unsupported(
          "a partial clone: objects may be missing, and a run cannot fetch them",
          "run `git fetch --refetch --no-filter` and remove the promisor settings, or clone in full");
    }
    if (version == "1" && key.starts_with("extensions.") && key != "extensions.objectformat" &&
        key != "extensions.worktreeconfig" && key != "extensions.preciousobjects" &&
        key != "extensions.noop" && !(key == "extensions.refstorage" && value == "files")) {
      return unsupported("the extension " + key + " is not known here", "use a repository without it");
    }
  }
  const std::string format = version == "1" ? config.get("extensions.objectformat").value_or("sha1") : "sha1";
  if (format != "sha1" && format != "sha256") {
    return unsupported("object format " + format, "use sha1 or sha256");
  }
  return format;
}

// The common directory's objects and everything they borrow from, breadth first.
Result<std::vector<std::string>> object_stores(const Found& found, const OpenOptions& options) {
  std::vector<std::string> out = {found.common_dir.path + "/objects"};
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto store = pathfs::resolve_directory(out[i]);
    if (store.has_error()) {
      return refused("worktree-alternates-foreign", out[i],
                     "an object store cannot be opened: " + store.error().detail,
                     "repair objects/info/alternates");
    }
    HR_TRY(text, read_metadata(store.value().fd.get(), "info/alternates", kMaxAlternates));
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      at = end + 1;
      if (line.empty() || line.front() == '#') {
        continue;
      }
      if (!options.trust_alternates) {
        return refused(
            "worktree-alternates-foreign", out[i] + "/info/alternates",
            "objects are borrowed from \"" + line + "\", which the run could then read",
            "run `git repack -a -d` and remove that file, or trust it by name: --trust-alternates");
      }
      if (line.front() == '"' || out.size() >= kMaxStores) {
        return refused("worktree-unsupported", out[i] + "/info/alternates",
                       line.front() == '"' ? "a quoted path" : "too many object stores",
                       "repack the repository");
      }
      if (line.front() != '/') {
        line.insert(0, out[i] + "/");
      }
      auto next = pathfs::resolve_directory(line);
      if (next.has_error()) {
        return refused("worktree-alternates-foreign", line,
                       "an object store cannot be opened: " + next.error().detail,
                       "repair objects/info/alternates");
      }
      if (std::find(out.begin(), out.end(), next.value().path) == out.end()) {
        out.push_back(next.value().path);
      }
    }
  }
  return out;
}

std::shared_ptr<const Fd> share(pathfs::Resolved& part) {
  return std::make_shared<const Fd>(std::move(part.fd));
}

}  // namespace

Result<Worktree> open_worktree(const std::string& path, const OpenOptions& options) {
  auto start = pathfs::resolve_directory(path);
  if (start.has_error()) {
    return open_failed(path, start.error());
  }
  HR_CHECK(check_width(start.value()));
  auto discovered = discover(std::move(start).value());
  if (discovered.has_error()) {
    return permission_denied(discovered.error()) ? open_failed(path, discovered.error()) : discovered.error();
  }
  Found found = std::move(discovered).value();
  HR_CHECK(check_owner(found, options));
  HR_CHECK(check_width(found.root));
  HR_CHECK(check_apart(found.root, options.keep_apart));
  HR_CHECK(check_entries(found, options));
  HR_TRY(config, read_config(found));
  HR_CHECK(check_belongs(found, config));
  Worktree out;
  HR_TRY(format, object_format(found, config));
  out.object_format = std::move(format);
  HR_TRY(stores, object_stores(found, options));
  out.object_stores = std::move(stores);
  HR_TRY(head, read_head(found.git_dir.fd.get(), found.common_dir.fd.get(), out.object_format));
  (void)head;  // only that it can be read
  for (const std::string_view key : kHarmless) {
    if (auto value = config.get(key)) {
      out.config.emplace(key, std::move(*value));
    }
  }
  out.root = found.root.path;
  out.subdirectory = found.subdirectory;
  out.kind = found.kind;
  out.git_dir = found.git_dir.path;
  out.common_dir = found.common_dir.path;
  out.root_id = found.root.identity;
  out.git_dir_id = found.git_dir.identity;
  out.common_dir_id = found.common_dir.identity;
  out.root_fd = share(found.root);
  out.git_fd = share(found.git_dir);
  out.common_fd = share(found.common_dir);
  return out;
}

Result<Head> read_head(const Worktree& worktree) {
  return read_head(worktree.git_fd->get(), worktree.common_fd->get(), worktree.object_format);
}

}  // namespace hitchrail::workspace
