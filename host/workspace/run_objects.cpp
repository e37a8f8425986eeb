#include "workspace/run_objects.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/file.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxPack = 512u << 20;
constexpr std::chrono::milliseconds kTransferTime{120'000};
constexpr std::uint32_t kUnpackLimit =
    100;  // as git's receive.unpackLimit: small transfers become loose objects

// A file of the attempt directory without a name.
Result<Fd> nameless_file(int attempt_dirfd) {
  Fd fd(::openat(attempt_dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) {  // a file system without O_TMPFILE
    constexpr const char* kName = ".import-pack";
    ::unlinkat(attempt_dirfd, kName, 0);
    HR_TRY(named, open_at(attempt_dirfd, kName, O_RDWR | O_CREAT | O_EXCL, 0600));
    ::unlinkat(attempt_dirfd, kName, 0);
    fd = std::move(named);
  }
  return fd;
}

std::uint32_t object_count(int pack_fd) {
  std::array<unsigned char, 12> header{};
  if (::pread(pack_fd, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size())) {
    return 0;
  }
  return static_cast<std::uint32_t>(header[8]) << 24 | static_cast<std::uint32_t>(header[9]) << 16 |
         static_cast<std::uint32_t>(header[10]) << 8 | header[11];
}

}  // namespace

std::vector<std::string> RunObjects::readable() const {
  std::vector<std::string> out = worktree_.object_stores;
  out.push_back(base_);
  out.push_back(private_);
  return out;
}

GitCall RunObjects::call(std::vector<std::string> args) const {
  GitCall call = git_call(base_, worktree_.root);
  call.env.emplace_back("GIT_ALTERNATE_OBJECT_DIRECTORIES", quote_path(private_ + "/objects"));
  call.readable = readable();
  call.args = std::move(args);
  return call;
}

Status RunObjects::check_layout(int private_fd) {
  for (const char* name : {"objects", "objects/info", "objects/pack"}) {
    HR_CHECK(check_metadata(private_fd, name, MetadataKind::directory));
  }
  HR_CHECK(check_metadata(private_fd, "objects/info/alternates", MetadataKind::file));
  auto packs = pathfs::open_directory_beneath(private_fd, "objects/pack");
  if (packs.has_error()) {
    return pathfs::is(packs.error(), pathfs::Code::not_found) ? Status{} : Status(packs.error());
  }
  HR_TRY(names, pathfs::list_directory(packs.value().get()));
  for (const std::string& name : names) {
    HR_CHECK(check_metadata(packs.value().get(), name, MetadataKind::file));
  }
  return {};
}

Result<bool> RunObjects::is_ancestor(const std::string& ancestor, const std::string& descendant) const {
  auto outcome = run_git(git_, call({"merge-base", "--is-ancestor", ancestor, descendant}));
  if (outcome.has_error()) {
    return is_answer_of_git(outcome.error()) ? Result<bool>(false) : Result<bool>(outcome.error());
  }
  return outcome.value().exit_code == 0;
}

Result<bool> RunObjects::complete(const std::string& revisions) const {
  GitCall check = git_call(base_, worktree_.root);
  check.readable = worktree_.object_stores;
  check.readable.push_back(base_);
  check.args = {"rev-list", "--objects", "--quiet", "--stdin"};
  check.input = revisions;
  check.timeout = kTransferTime;
  HR_TRY(outcome, run_git(git_, check));
  return outcome.exit_code == 0;
}

Result<bool> RunObjects::bring(const std::vector<std::string>& wants, const std::string& have,
                               int attempt_dirfd) const {
  if (wants.empty()) {
    return true;
  }
  std::string revisions;
  for (const std::string& want : wants) {
    revisions += want + "\n";
  }
  if (!have.empty()) {
    revisions += "^" + have + "\n";
  }
  HR_TRY(already, complete(revisions));
  if (already) {
    return true;
  }
  HR_TRY(transferred, transfer(revisions, attempt_dirfd));
  if (!transferred) {
    return false;
  }
  return complete(revisions);
}

Result<bool> RunObjects::transfer(const std::string& revisions, int attempt_dirfd) const {
  HR_TRY(pack, nameless_file(attempt_dirfd));
  GitCall read = call({"pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"});
  read.input = revisions;
  read.output_fd = pack.get();
  read.max_output = kMaxPack;
  read.timeout = kTransferTime;
  auto packed = run_git(git_, read);
  if (packed.has_error()) {
    return is_answer_of_git(packed.error()) ? Result<bool>(false) : Result<bool>(packed.error());
  }
  if (packed.value().exit_code != 0) {
    return false;
  }
  // git-base's configuration, the real object directory: the repository's own settings have no say in what is
  // accepted.
  GitCall write = git_call(base_, worktree_.root);
  write.env.emplace_back("GIT_OBJECT_DIRECTORY", worktree_.object_stores.front());
  write.import_git_dir = worktree_.common_dir;
  write.readable = worktree_.object_stores;
  write.readable.push_back(base_);
  if (object_count(pack.get()) < kUnpackLimit) {
    write.args = {"unpack-objects", "-q", "--strict"};
  } else {
    write.args = {"index-pack", "--stdin", "--strict"};
  }
  write.input_fd = pack.get();
  write.timeout = kTransferTime;
  HR_TRY(written, run_git(git_, write));
  return written.exit_code == 0;
}

}  // namespace hitchrail::workspace
