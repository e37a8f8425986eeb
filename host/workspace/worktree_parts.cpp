#include "workspace/worktree_parts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "core/text.hpp"
#include "pathfs/edit.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxPointer = 8192;
constexpr auto kLastWriter = std::chrono::seconds(5);

Error not_ours(const WorktreeManifest& manifest, const std::string& object, const std::string& detail) {
  return Error{ErrorClass::refused,
               "worktree-manifest-mismatch",
               "remove worktree",
               object,
               detail + "; it is left alone",
               "look at it: git -C " + escape_visible(manifest.repository.root_path) + " worktree list"};
}

std::optional<pathfs::Owner> owner_like(const pathfs::Identity& identity) {
  if (::geteuid() == 0 && identity.uid != 0) {
    return pathfs::Owner{identity.uid, identity.gid};
  }
  return std::nullopt;
}

std::string format_of(const WorktreeManifest& manifest) {
  return manifest.base.commit.size() == 64 ? "sha256" : "sha1";
}

std::string in_worktrees(const WorktreeManifest& manifest, const std::string& name = "") {
  return "worktrees/" + manifest.registration + (name.empty() ? "" : "/" + name);
}

Result<pathfs::Identity> look(int root, const std::string& path) {
  auto found = pathfs::identify_beneath(root, path);
  if (found.has_error() && pathfs::is(found.error(), pathfs::Code::not_found)) {
    return pathfs::Identity{};  // absent
  }
  return found;
}

// A git that was killed with its caller may write for an instant still.
Status remove_whole(int parent, const std::string& name) {
  const auto until = std::chrono::steady_clock::now() + kLastWriter;
  while (true) {
    Status removed = pathfs::remove_tree_beneath(parent, name);
    if (removed.has_value() || pathfs::io_reason(removed.error()) != "enotempty" ||
        std::chrono::steady_clock::now() > until) {
      return removed;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Is the branch the head of any worktree? Then git would be left without a commit there.
Result<bool> checked_out(int common, const std::string& ref) {
  const std::string wanted = "ref: " + ref + "\n";
  HR_TRY(head, read_metadata(common, "HEAD", kMaxPointer));
  if (head == wanted) {
    return true;
  }
  auto folder = pathfs::open_directory_beneath(common, "worktrees");
  if (folder.has_error()) {
    return pathfs::is(folder.error(), pathfs::Code::not_found) ? Result<bool>(false)
                                                               : Result<bool>(folder.error());
  }
  HR_TRY(names, pathfs::list_directory(folder.value().get()));
  for (const std::string& name : names) {
    auto other = read_metadata(folder.value().get(), name + "/HEAD", kMaxPointer);
    if (other.has_error() || other.value() == wanted) {
      return true;  // one that cannot be read may be on it
    }
  }
  return false;
}

}  // namespace

Result<Parent> open_parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  Parent out;
  HR_TRY(directory, pathfs::resolve_directory(slash == 0 ? "/" : path.substr(0, slash)));
  out.directory = std::move(directory);
  out.name = path.substr(slash + 1);
  return out;
}

std::string aside_name(const std::string& id) {
  return ".hitchrail-new-" + id.substr(9);
}

std::string removing_name(const std::string& id) {
  return ".hitchrail-removing-" + id.substr(9);
}

Result<Standing> standing(const WorktreeManifest& manifest) {
  auto parent = open_parent_of(manifest.path);
  if (parent.has_error()) {
    return pathfs::is(parent.error(), pathfs::Code::not_found) ? Result<Standing>(Standing::absent)
                                                               : Result<Standing>(parent.error());
  }
  HR_TRY(found, pathfs::identify_at(parent.value().directory.fd.get(), parent.value().name));
  if (found.type == pathfs::FileType::absent) {
    return Standing::absent;
  }
  const bool same = found.type == pathfs::FileType::directory &&
                    same_identity(manifest.identity.root, manifest.identity.boot_id, found.text());
  return same ? Standing::ours : Standing::foreign;
}

Status remove_files(const WorktreeManifest& manifest) {
  auto opened = open_parent_of(manifest.path);
  if (opened.has_error()) {
    return pathfs::is(opened.error(), pathfs::Code::not_found) ? Status{} : Status(opened.error());
  }
  const int parent = opened.value().directory.fd.get();
  const std::string& name = opened.value().name;
  const std::string removing = removing_name(manifest.id);
  HR_TRY(stands, standing(manifest));
  if (stands == Standing::ours) {
    HR_CHECK(pathfs::rename_beneath(parent, name, removing));
    HR_TRY(moved, pathfs::identify_at(parent, removing));
    if (!same_identity(manifest.identity.root, manifest.identity.boot_id, moved.text())) {
      (void)pathfs::rename_beneath(parent, removing, name);  // put there between the look and the move
      return not_ours(manifest, manifest.path, "another directory was put in its place");
    }
  }
  for (const std::string& each : {aside_name(manifest.id), removing}) {
    HR_TRY(found, pathfs::identify_at(parent, each));
    if (found.type == pathfs::FileType::absent) {
      continue;
    }
    // The name alone says whose it is only as long as nobody could know it.
    const bool ours = manifest.identity.root.empty()
                          ? found.type == pathfs::FileType::directory && found.uid == ::geteuid()
                          : same_identity(manifest.identity.root, manifest.identity.boot_id, found.text());
    if (!ours) {
      return not_ours(manifest, opened.value().directory.path + "/" + each, "it is not what was made there");
    }
    HR_CHECK(remove_whole(parent, each));
  }
  return {};
}

Result<pathfs::Resolved> open_common(const WorktreeManifest& manifest) {
  HR_TRY(common, pathfs::resolve_directory(manifest.repository.common_git_dir));
  if (!same_identity(manifest.identity.common_git_dir, manifest.identity.boot_id, common.identity.text())) {
    return not_ours(manifest, common.path, "another directory stands where the repository was");
  }
  return common;
}

Status write_registration(const WorktreeManifest& manifest, const Worktree& source,
                          const Registration& registration) {
  const int common = source.common_fd->get();
  pathfs::DirectoryOptions directory;
  directory.owner = owner_like(source.common_dir_id);
  const Status folder = [&]() -> Status {
    auto made = pathfs::make_directory_beneath(common, "worktrees", directory);
    return made.has_error() && pathfs::io_reason(made.error()) != "eexist" ? Status(made.error()) : Status{};
  }();
  HR_CHECK(folder);
  HR_TRY(own, pathfs::make_directory_beneath(common, in_worktrees(manifest), directory));
  pathfs::WriteOptions file;
  file.owner = directory.owner;
  file.replace = false;
  const std::pair<const char*, std::string> files[] = {
      {"locked", "hitchrail is making " + manifest.id + "\n"},  // so that `git worktree prune` waits
      {"gitdir", manifest.path + "/.git\n"},
      {"commondir", "../..\n"},
      {"HEAD", registration.head + "\n"},
      {"index", registration.index}};
  for (const auto& [name, bytes] : files) {
    HR_TRY(written, pathfs::write_beneath(own.get(), name, bytes, file));
    (void)written;
  }
  return {};
}

Result<Registered> registered(const WorktreeManifest& manifest, const pathfs::Resolved& common) {
  HR_TRY(found, look(common.fd.get(), in_worktrees(manifest)));
  if (found.type == pathfs::FileType::absent) {
    return Registered::absent;
  }
  if (found.type != pathfs::FileType::directory ||
      (!manifest.identity.git_dir.empty() &&
       !same_identity(manifest.identity.git_dir, manifest.identity.boot_id, found.text()))) {
    return Registered::foreign;
  }
  // Without a pointer it is one that was being made or removed; its name has a part that nobody guesses.
  HR_TRY(pointer, read_metadata(common.fd.get(), in_worktrees(manifest, "gitdir"), kMaxPointer));
  return pointer.empty() || pointer == manifest.path + "/.git\n" ? Registered::ours : Registered::foreign;
}

Status remove_registration(const WorktreeManifest& manifest) {
  auto common = open_common(manifest);
  if (common.has_error()) {
    return pathfs::is(common.error(), pathfs::Code::not_found) ? Status{} : Status(common.error());
  }
  HR_TRY(state, registered(manifest, common.value()));
  if (state == Registered::foreign) {
    return not_ours(manifest, common.value().path + "/" + in_worktrees(manifest),
                    "git registered another worktree under this name");
  }
  if (state == Registered::ours) {
    HR_CHECK(remove_whole(common.value().fd.get(), in_worktrees(manifest)));
    (void)pathfs::remove_directory_beneath(common.value().fd.get(), "worktrees");  // as git: when it is empty
  }
  return {};
}

Result<std::string> held_by_operator(const WorktreeManifest& manifest) {
  HR_TRY(common, open_common(manifest));
  HR_TRY(found, look(common.fd.get(), in_worktrees(manifest, "locked")));
  if (found.type == pathfs::FileType::absent) {
    return std::string();
  }
  HR_TRY(text, read_metadata(common.fd.get(), in_worktrees(manifest, "locked"), kMaxPointer));
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text.empty() ? std::string("locked") : text;
}

Status make_branch(const WorktreeManifest& manifest, const Worktree& source, const GitRunner& git) {
  const std::string ref = "refs/heads/" + manifest.branch;
  GitCall call = git_call(source.common_dir, source.root);
  call.readable = source.object_stores;
  call.readable.push_back(source.common_dir);
  call.writable = {source.common_dir + "/refs"};
  if (pathfs::open_directory_beneath(source.common_fd->get(), "logs").has_value()) {
    call.writable.push_back(source.common_dir + "/logs");
  }
  call.args = {"update-ref",
               "-m",
               "hitchrail: " + manifest.id,
               ref,
               manifest.base.commit,
               zero_oid(source.object_format)};
  HR_TRY(outcome, run_git(git, call));
  if (outcome.exit_code == 0) {
    return {};
  }
  return Error{ErrorClass::refused,
               "branch-exists",
               "make branch",
               manifest.branch,
               "git did not make it: " + escape_cut(outcome.error, 400),
               "another name: --branch NAME"};
}

Result<bool> remove_branch(const WorktreeManifest& manifest, const GitRunner& git) {
  if (!manifest.branch_made || manifest.base.commit.empty()) {
    return false;
  }
  auto common = open_common(manifest);
  if (common.has_error()) {
    return pathfs::is(common.error(), pathfs::Code::not_found) ? Result<bool>(true)
                                                               : Result<bool>(common.error());
  }
  const std::string ref = "refs/heads/" + manifest.branch;
  const int fd = common.value().fd.get();
  HR_TRY(now, read_ref(fd, ref, format_of(manifest)));
  if (now.empty()) {
    // A git of ours that was killed leaves its lock; one of this branch and this very content.
    auto lock = read_metadata(fd, ref + ".lock", kMaxPointer);
    if (manifest.creation != "ready" && lock.has_value() &&
        (lock.value().empty() || lock.value() == manifest.base.commit + "\n")) {
      (void)pathfs::remove_file_beneath(fd, ref + ".lock");
    }
    return true;
  }
  HR_TRY(used, checked_out(fd, ref));
  if (now != manifest.base.commit || used) {
    return false;
  }
  const std::string& root = manifest.repository.root_path;
  const bool there = pathfs::resolve_directory(root).has_value();
  GitCall call = git_call(common.value().path, there ? root : common.value().path);
  call.import_git_dir = common.value().path;
  call.args = {"update-ref", "-d", ref, manifest.base.commit};
  auto outcome = run_git(git, call);
  if (outcome.has_error() && outcome.error().code == "import-unproven") {
    return false;  // the landlock backend: the branch stays, and that is said
  }
  return outcome.has_error() ? Result<bool>(outcome.error()) : Result<bool>(outcome.value().exit_code == 0);
}

}  // namespace hitchrail::workspace
