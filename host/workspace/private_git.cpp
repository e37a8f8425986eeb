#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "workspace/gate_git.hpp"
#include "workspace/git_call.hpp"
#include "workspace/git_config.hpp"
#include "workspace/launch_state.hpp"
#include "workspace/refs.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::uint64_t kMaxIndex = 1ull << 30;
constexpr std::size_t kMaxSmallFile = 16u << 20;

Error git_too_large(const std::string& name) {
  return Error{ErrorClass::refused,
               "worktree-too-large",
               "copy git state",
               name,
               "larger than " + std::to_string(kMaxIndex) + " bytes",
               "use a sparse checkout with a sparse index"};
}

// Makes files and directories that belong to the worktree's owner.
class Maker {
 public:
  explicit Maker(const Worktree& worktree)
      : change_owner_(::geteuid() == 0 && worktree.root_id.uid != 0),
        uid_(worktree.root_id.uid),
        gid_(worktree.root_id.gid) {}

  Result<Fd> directory(int dirfd, const std::string& name) const {
    if (::mkdirat(dirfd, name.c_str(), 0700) != 0) {
      return errno_error("make directory", name, errno);
    }
    HR_TRY(fd, open_at(dirfd, name, O_RDONLY | O_DIRECTORY));
    HR_CHECK(own(fd.get(), name));
    return fd;
  }

  Result<Fd> file(int dirfd, const std::string& name) const {
    HR_TRY(fd, open_at(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600));
    HR_CHECK(own(fd.get(), name));
    return fd;
  }

  Status write(int dirfd, const std::string& name, std::string_view bytes) const {
    HR_TRY(fd, file(dirfd, name));
    return write_all(fd.get(), bytes);
  }

 private:
  Status own(int fd, const std::string& name) const {
    if (change_owner_ && ::fchown(fd, uid_, gid_) != 0) {
      return errno_error("change owner", name, errno);
    }
    return {};
  }

  bool change_owner_;
  uid_t uid_;
  gid_t gid_;
};

Status copy_bytes(int from, int to, std::uint64_t size, const std::string& name) {
  std::uint64_t left = size;
  while (left > 0) {
    ssize_t n = ::copy_file_range(from, nullptr, to, nullptr, left, 0);
    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
      n = ::sendfile(to, from, nullptr, left);
    }
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno_error("copy", name, errno);
    }
    if (n == 0) {
      return errno_error("copy", name, ESTALE);  // git replaces its index, it never cuts it
    }
    left -= static_cast<std::uint64_t>(n);
  }
  return {};
}

// The index decides by its own modification time which entries it must look at again: the copy keeps it.
Status copy_index_file(int from_dir, const std::string& name, int to_dir, const Maker& make) {
  auto opened = pathfs::open_regular_beneath(from_dir, name);
  if (opened.has_error()) {
    if (pathfs::is(opened.error(), pathfs::Code::not_found)) {
      return {};
    }
    return metadata_unsafe(name, opened.error().detail);
  }
  struct stat st {};
  if (::fstat(opened.value().get(), &st) != 0) {
    return errno_error("stat", name, errno);
  }
  if (static_cast<std::uint64_t>(st.st_size) > kMaxIndex) {
    return git_too_large(name);
  }
  HR_TRY(to, make.file(to_dir, name));
  HR_CHECK(copy_bytes(opened.value().get(), to.get(), static_cast<std::uint64_t>(st.st_size), name));
  const struct timespec times[2] = {st.st_atim, st.st_mtim};
  if (::futimens(to.get(), times) != 0) {
    return errno_error("set time", name, errno);
  }
  return {};
}

Status copy_index(const Worktree& worktree, int to_dir, const Maker& make) {
  const int git = worktree.git_fd->get();
  HR_CHECK(copy_index_file(git, "index", to_dir, make));
  HR_TRY(names, pathfs::list_directory(git));
  std::size_t shared = 0;
  for (const std::string& name : names) {
    if (name.starts_with("sharedindex.") && valid_oid(name.substr(12), worktree.object_format) &&
        ++shared <= 8) {
      HR_CHECK(copy_index_file(git, name, to_dir, make));
    }
  }
  return {};
}

Status copy_small(int from_dir, const std::string& from, int to_dir, const std::string& to,
                  const Maker& make) {
  HR_TRY(text, read_metadata(from_dir, from, kMaxSmallFile));
  return text.empty() ? Status{} : make.write(to_dir, to, text);
}

std::string config_text(const Worktree& worktree) {
  const bool sha256 = worktree.object_format == "sha256";
  std::string out = "[core]\n" + config_line("repositoryformatversion", sha256 ? "1" : "0") +
                    config_line("bare", "false") + config_line("logAllRefUpdates", "true") +
                    config_line("fsmonitor", "false") + config_line("untrackedCache", "false") +
                    config_line("checkStat", "minimal") + config_line("trustctime", "false");
  std::string others;
  for (const auto& [key, value] : worktree.config) {
    const std::size_t dot = key.find('.');
    const std::string section = key.substr(0, dot);
    if (section == "core") {
      out += config_line(key.substr(dot + 1), value);
    } else if (section != "user") {  // identity comes by environment
      others += "[" + section + "]\n" + config_line(key.substr(dot + 1), value);
    }
  }
  if (sha256) {
    others += "[extensions]\n" + config_line("objectFormat", "sha256");
  }
  // The objects of submodules are not in the run's boundary yet; only their recorded commit is compared.
  others += "[diff]\n" + config_line("ignoreSubmodules", "dirty") + "[gc]\n" + config_line("auto", "0") +
            "[maintenance]\n" + config_line("auto", "false");
  return out + others;
}

// refs/remotes/origin/HEAD and the like, as loose files.
Status write_symbolic_ref(int dir, const std::string& name, const std::string& target, const Maker& make) {
  Fd holder;
  int at = dir;
  std::size_t from = 0;
  while (true) {
    const std::size_t slash = name.find('/', from);
    if (slash == std::string::npos) {
      return make.write(at, name.substr(from), "ref: " + target + "\n");
    }
    const std::string part = name.substr(from, slash - from);
    auto next = make.directory(at, part);
    if (next.has_error() && next.error().code == "eexist") {
      next = open_at(at, part, O_RDONLY | O_DIRECTORY);
    }
    if (next.has_error()) {
      return next.error();
    }
    holder = std::move(next).value();
    at = holder.get();
    from = slash + 1;
  }
}

struct State {
  Head head;
  RefTable refs;
};

// Of what the host itself wrote: directories and files, nothing else.
Status copy_git_tree(int from, int to, const Maker& make) {
  HR_TRY(names, pathfs::list_directory(from));
  for (const std::string& name : names) {
    HR_TRY(what, pathfs::identify_at(from, name));
    if (what.type == pathfs::FileType::directory) {
      HR_TRY(below, pathfs::open_directory_beneath(from, name));
      HR_TRY(made, make.directory(to, name));
      HR_CHECK(copy_git_tree(below.get(), made.get(), make));
    } else {
      HR_CHECK(copy_index_file(from, name, to, make));
    }
  }
  return {};
}

Status fill(const Worktree& worktree, const State& state, const std::vector<std::string>& stores, int dir,
            const Maker& make) {
  HR_TRY(objects, make.directory(dir, "objects"));
  HR_TRY(info, make.directory(objects.get(), "info"));
  std::string alternates;
  for (const std::string& store : stores) {
    alternates += quote_path(store) + "\n";
  }
  HR_CHECK(make.write(info.get(), "alternates", alternates));
  HR_TRY(refs, make.directory(dir, "refs"));
  (void)refs;  // git makes what it needs below it
  HR_CHECK(make.write(dir, "packed-refs", packed_refs(state.refs)));
  for (const auto& [name, target] : state.refs.symbolic) {
    HR_CHECK(write_symbolic_ref(dir, name, target, make));
  }
  HR_CHECK(make.write(dir, "config", config_text(worktree)));
  HR_TRY(own_info, make.directory(dir, "info"));
  const int git = worktree.git_fd->get();
  const int common = worktree.common_fd->get();
  HR_CHECK(copy_small(common, "info/exclude", own_info.get(), "exclude", make));
  HR_CHECK(copy_small(common, "info/attributes", own_info.get(), "attributes", make));
  HR_CHECK(copy_small(git, "info/sparse-checkout", own_info.get(), "sparse-checkout", make));
  HR_CHECK(copy_small(common, "shallow", dir, "shallow", make));
  HR_CHECK(copy_index(worktree, dir, make));
  // Last: without HEAD it is no git directory yet.
  return make.write(dir, "HEAD", (state.head.ref.empty() ? state.head.oid : "ref: " + state.head.ref) + "\n");
}

}  // namespace

Result<PrivateGit> prepare_private_git(const Worktree& worktree, int attempt_dirfd,
                                       const std::string& attempt_path, const PrivateGitOptions& options) {
  State state;
  HR_TRY(head, read_head(worktree));
  state.head = std::move(head);
  HR_TRY(refs, read_refs(worktree.common_fd->get(), worktree.object_format));
  state.refs = std::move(refs);
  HR_TRY(again, read_head(worktree));
  if (again != state.head || (options.expected_head && *options.expected_head != state.head)) {
    return refused_change(worktree.root, "HEAD moved while the run was being prepared");
  }
  if (!state.head.ref.empty() && !state.head.oid.empty()) {
    state.refs.oids[state.head.ref] =
        state.head.oid;  // what the baseline says, should the branch just have moved
    state.refs.symbolic.erase(state.head.ref);
  }
  const Maker make(worktree);
  HR_CHECK(remove_tree_at(attempt_dirfd, "git"));
  HR_CHECK(remove_tree_at(attempt_dirfd, "git-base"));
  HR_TRY(base, make.directory(attempt_dirfd, "git-base"));
  HR_CHECK(fill(worktree, state, worktree.object_stores, base.get(), make));
  HR_CHECK(make.write(base.get(), launch_state_name, launch_state(worktree)));
  HR_TRY(own, make.directory(attempt_dirfd, "git"));
  std::vector<std::string> inside = worktree.object_stores;
  if (!options.objects_inside.empty()) {
    inside.front() = options.objects_inside;
  }
  HR_CHECK(fill(worktree, state, inside, own.get(), make));

  PrivateGit out;
  out.directory = attempt_path + "/git";
  out.objects = worktree.object_stores.front();
  out.readable.assign(worktree.object_stores.begin() + 1, worktree.object_stores.end());
  const auto value = [&](const char* key) {
    const auto found = worktree.config.find(key);
    return found == worktree.config.end() ? std::string() : found->second;
  };
  out.user_name = value("user.name");
  out.user_email = value("user.email");
  return out;
}

Status keep_git_for_gates(const Worktree& worktree, int attempt_dirfd) {
  const Maker make(worktree);
  HR_CHECK(remove_tree_at(attempt_dirfd, gate_git_name));
  HR_TRY(own, open_at(attempt_dirfd, "git", O_RDONLY | O_DIRECTORY));
  HR_TRY(kept, make.directory(attempt_dirfd, gate_git_name));
  HR_CHECK(copy_git_tree(own.get(), kept.get(), make));
  auto index = pathfs::open_regular_beneath(kept.get(), "index");
  if (index.has_error()) {
    return pathfs::is(index.error(), pathfs::Code::not_found) ? Status{} : Status(index.error());
  }
  const struct timespec times[2] = {{1, 0}, {1, 0}};  // 0 would mean to git that it has no time
  return ::futimens(index.value().get(), times) == 0 ? Status{} : errno_error("set time", "index", errno);
}

}  // namespace hitchrail::workspace
