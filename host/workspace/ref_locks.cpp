#include "workspace/ref_locks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "pathfs/edit.hpp"
#include "pathfs/pathfs.hpp"
#include "pathfs/raw.hpp"

namespace hitchrail::workspace {
namespace {

constexpr const char* kMark = "ref-update";
constexpr auto kStep = std::chrono::milliseconds(50);
constexpr int kSteps = 20;  // one second; git holds such a lock for milliseconds

Status clear_one(int directory, const std::string& name, const pathfs::raw::Stat& mark) {
  pathfs::raw::Stat first;
  if (!pathfs::raw::look(directory, name.c_str(), first) || first.changed_ns < mark.changed_ns) {
    return {};
  }
  for (int i = 0; i < kSteps; ++i) {
    std::this_thread::sleep_for(kStep);
    pathfs::raw::Stat now;
    if (!pathfs::raw::look(directory, name.c_str(), now) || now.inode != first.inode ||
        now.changed_ns != first.changed_ns) {
      return {};
    }
  }
  return pathfs::remove_file_beneath(directory, name);
}

}  // namespace

Status mark_ref_update(int attempt_dirfd) {
  HR_TRY(made, pathfs::open_beneath(attempt_dirfd, kMark, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  (void)made;
  return {};
}

void unmark_ref_update(int attempt_dirfd) {
  (void)pathfs::remove_file_beneath(attempt_dirfd, kMark);
}

Status clear_stale_ref_locks(const Worktree& worktree, int attempt_dirfd, const std::string& ref) {
  pathfs::raw::Stat mark;
  if (!pathfs::raw::look(attempt_dirfd, kMark, mark)) {
    return {};
  }
  HR_CHECK(clear_one(worktree.git_fd->get(), "HEAD.lock", mark));
  const std::size_t slash = ref.rfind('/');
  if (slash == std::string::npos) {
    return {};
  }
  auto folder = pathfs::open_directory_beneath(worktree.common_fd->get(), ref.substr(0, slash));
  if (folder.has_error()) {
    return {};  // no folder, no lock in it
  }
  return clear_one(folder.value().get(), ref.substr(slash + 1) + ".lock", mark);
}

}  // namespace hitchrail::workspace
