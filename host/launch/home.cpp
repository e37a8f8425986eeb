#include "launch/home.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/file.hpp"
#include "pathfs/edit.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_carried_bytes = 256u << 20;
constexpr std::size_t max_login_bytes = 1u << 20;

Status write_home_file(int home, const std::string& path, std::string_view bytes) {
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos) {
    pathfs::DirectoryOptions directories;
    directories.mode = 0700;
    directories.parents = true;
    HR_CHECK(pathfs::make_directory_beneath(home, path.substr(0, slash), directories));
  }
  pathfs::WriteOptions options;
  options.replace = false;
  options.mode = 0600;
  options.sync = false;  // a start that a power cut interrupts is never resumed
  HR_CHECK(pathfs::write_beneath(home, path, bytes, options));
  return {};
}

Status carry_file(int from, const std::string& name, int home, const std::string& path) {
  HR_TRY(bytes, pathfs::read_beneath(from, name, max_carried_bytes));
  return write_home_file(home, path, bytes);
}

// Copies every file that matches `pattern` (components; "*" and "?" inside one) and whose name holds the
// conversation's id: a resume takes only that conversation's own session.
Status carry_matches(int directory, const std::string& pattern, const std::string& prefix,
                     const std::string& conversation, int home) {
  const auto slash = pattern.find('/');
  const std::string component = pattern.substr(0, slash);
  HR_TRY(names, pathfs::list_directory(directory));
  for (const auto& name : names) {
    if (::fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) != 0) {
      continue;
    }
    const auto identity = pathfs::identify_at(directory, name);
    if (identity.has_error()) {
      continue;
    }
    const std::string path = prefix.empty() ? name : prefix + "/" + name;
    if (slash == std::string::npos) {
      if (identity.value().type == pathfs::FileType::regular &&
          name.find(conversation) != std::string::npos) {
        HR_CHECK(carry_file(directory, name, home, path));
      }
    } else if (identity.value().type == pathfs::FileType::directory) {
      HR_TRY(next, pathfs::open_directory_beneath(directory, name));
      HR_CHECK(carry_matches(next.get(), pattern.substr(slash + 1), path, conversation, home));
    }
  }
  return {};
}

}  // namespace

Status fill_home(int home_dirfd, const PlanStage& plan, const BoundaryStage& boundary,
                 const ProfileStage& profile, const WorktreeStage& worktree) {
  if (worktree.resumed) {
    for (const auto& file : plan.planned.plan.file_streams) {
      if (file.carry) {
        HR_CHECK(carry_matches(worktree.resumed->home.get(), file.pattern, "",
                               worktree.resumed->conversation_id, home_dirfd));
      }
    }
  }
  for (const auto& file : plan.planned.plan.home_files) {
    HR_CHECK(write_home_file(home_dirfd, file.path, file.bytes));
  }
  if (boundary.login_file) {
    // A mount point; or, where nothing can be mounted or the run's uid could not read the original, a copy
    // that the finisher removes.
    std::string bytes;
    if (boundary.compiled.copy_credentials) {
      HR_TRY(file, open_no_symlinks(AT_FDCWD, *boundary.login_file, O_RDONLY | O_NONBLOCK));
      HR_TRY(read, read_all(file.get(), max_login_bytes));
      bytes = std::move(read);
    }
    HR_CHECK(write_home_file(home_dirfd, profile.profile.login_home_path, bytes));
  }
  return {};
}

Status give_tree(int dirfd, std::uint32_t uid, std::uint32_t gid) {
  if (::fchown(dirfd, uid, gid) != 0) {
    return errno_error("give to the run's user", "run directory", errno);
  }
  HR_TRY(names, list_directory(dirfd));
  for (const auto& name : names) {
    struct stat status {};
    if (::fstatat(dirfd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_error("look at", name, errno);
    }
    if (S_ISDIR(status.st_mode)) {
      HR_TRY(next, open_at(dirfd, name, O_RDONLY | O_DIRECTORY));
      HR_CHECK(give_tree(next.get(), uid, gid));
    } else if (::fchownat(dirfd, name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_error("give to the run's user", name, errno);
    }
  }
  return {};
}

}  // namespace hitchrail::launch
