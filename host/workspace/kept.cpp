#include "workspace/kept.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/file.hpp"
#include "workspace/git_call.hpp"
#include "workspace/git_config.hpp"

namespace hitchrail::workspace {
namespace {

Result<Fd> make_directory(int dirfd, const std::string& name) {
  if (::mkdirat(dirfd, name.c_str(), 0700) != 0) {
    return errno_error("make directory", name, errno);
  }
  return open_at(dirfd, name, O_RDONLY | O_DIRECTORY);
}

Status write_file(int dirfd, const std::string& name, std::string_view bytes) {
  HR_TRY(fd, open_at(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return write_all(fd.get(), bytes);
}

}  // namespace

Status keep_refs(const Worktree& worktree, int attempt_dirfd, const std::string& attempt_path,
                 const RefTable& refs, const Head& head) {
  HR_CHECK(drop_kept(attempt_dirfd));
  HR_TRY(dir, make_directory(attempt_dirfd, kept_name));
  HR_TRY(objects, make_directory(dir.get(), "objects"));
  HR_TRY(info, make_directory(objects.get(), "info"));
  std::string alternates = quote_path(attempt_path + "/git/objects") + "\n";
  for (const std::string& store : worktree.object_stores) {
    alternates += quote_path(store) + "\n";
  }
  HR_CHECK(write_file(info.get(), "alternates", alternates));
  HR_TRY(none, make_directory(dir.get(), "refs"));
  (void)none;
  RefTable all;
  all.oids = refs.oids;
  if (head.ref.empty() && !head.oid.empty()) {
    all.oids["refs/heads/detached"] = head.oid;
  }
  HR_CHECK(write_file(dir.get(), "packed-refs", packed_refs(all)));
  const bool sha256 = worktree.object_format == "sha256";
  HR_CHECK(write_file(dir.get(), "config",
                      "[core]\n" + config_line("repositoryformatversion", sha256 ? "1" : "0") +
                          config_line("bare", "true") +
                          (sha256 ? "[extensions]\n" + config_line("objectFormat", "sha256") : "")));
  return write_file(dir.get(), "HEAD",
                    "ref: " + (head.ref.empty() ? "refs/heads/detached" : head.ref) + "\n");
}

Status drop_kept(int attempt_dirfd) {
  return remove_tree_at(attempt_dirfd, kept_name);
}

}  // namespace hitchrail::workspace
