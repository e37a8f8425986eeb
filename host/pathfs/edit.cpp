#include "pathfs/edit.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <utility>

#include "core/file.hpp"
#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr int kMaxAppeared = 8;  // a name that comes and goes while it is written
constexpr mode_t kPermissions = 01777;

Error exists(const char* operation, const std::string& path) {
  return system_error(operation, path, EEXIST);
}

StageOptions stage_options(const WriteOptions& options, const Identity& old) {
  StageOptions out;
  out.mode = options.mode.value_or(old.type == FileType::regular ? old.mode & kPermissions : 0644);
  out.owner = options.owner;
  if (!options.owner && old.type == FileType::regular) {
    out.like = Owner{old.uid, old.gid};
  }
  out.sync = options.sync;
  return out;
}

// One try: io/eexist when something has appeared where nothing was.
Result<Identity> write_once(const Place& place, std::string_view bytes, const WriteOptions& options,
                            const Identity& old, const std::string& path) {
  HR_TRY(staged, stage(place.directory, bytes, stage_options(options, old), path));
  const bool fresh = old.type == FileType::absent;
  if (::renameat2(place.directory, staged.name.c_str(), place.directory, place.name.c_str(),
                  fresh ? RENAME_NOREPLACE : 0) != 0) {
    const int error = errno;
    ::unlinkat(place.directory, staged.name.c_str(), 0);
    return system_error("write", path, error);
  }
  if (options.sync) {
    HR_CHECK(sync_directory(place.directory, path));
  }
  return identify(staged.fd.get());
}

// Opens what was just made. Somebody may have put another directory of ours in its place: only an empty one
// is given away.
Result<Fd> own_directory(int parent, const std::string& name, const std::optional<Owner>& owner,
                         const std::string& path) {
  HR_TRY(fd, open_directory_beneath(parent, name));
  if (!owner) {
    return fd;
  }
  HR_TRY(identity, identify(fd.get()));
  const auto names = list_directory(fd.get(), 0);
  if (identity.uid != ::geteuid() || names.has_error()) {
    return stale("make directory", path);
  }
  if (::fchown(fd.get(), owner->uid, owner->gid) != 0) {
    return system_error("change owner", path, errno);
  }
  return fd;
}

Result<Fd> make_with_parents(int root, const std::string& path, const DirectoryOptions& options) {
  Fd holder;
  int current = root;
  const std::vector<std::string> names = components(path);
  for (const std::string& name : names) {
    const int flags =
        (&name == &names.back() ? O_RDONLY : O_PATH) | O_DIRECTORY;  // the way need not be readable
    auto next = open_beneath(current, name, flags);
    if (next.has_error() && is(next.error(), Code::not_found)) {
      if (::mkdirat(current, name.c_str(), options.mode) == 0) {
        next = own_directory(current, name, options.owner, path);
      } else if (errno == EEXIST) {
        next = open_beneath(current, name, flags);
      } else {
        return system_error("make directory", path, errno);
      }
    }
    if (next.has_error()) {
      Error error = std::move(next).error();
      error.object = path;
      return error;
    }
    holder = std::move(next).value();
    current = holder.get();
  }
  return holder;
}

}  // namespace

Result<Identity> write_beneath(int root, const std::string& path, std::string_view bytes,
                               const WriteOptions& options) {
  HR_TRY(place, open_place(root, path));
  for (int i = 0;; ++i) {
    HR_TRY(old, identify_at(place.directory, place.name));
    if (old.type != FileType::regular && old.type != FileType::absent) {
      return wrong_type("write", path, old.type);
    }
    if (old.type != FileType::absent && !options.replace) {
      return exists("write", path);
    }
    auto written = write_once(place, bytes, options, old, path);
    const bool appeared = written.has_error() && io_reason(written.error()) == "eexist";
    if (!appeared || !options.replace || i >= kMaxAppeared) {
      return written;
    }
  }
}

Result<Fd> make_directory_beneath(int root, const std::string& path, const DirectoryOptions& options) {
  HR_CHECK(check_relative("make directory", path));
  if (options.parents) {
    return make_with_parents(root, path, options);
  }
  HR_TRY(place, open_place(root, path));
  if (::mkdirat(place.directory, place.name.c_str(), options.mode) != 0) {
    return system_error("make directory", path, errno);
  }
  return own_directory(place.directory, place.name, options.owner, path);
}

Status chmod_beneath(int root, const std::string& path, mode_t mode) {
  HR_TRY(fd, open_beneath(root, path, O_PATH));
  HR_TRY(identity, identify(fd.get()));
  return change_mode(fd.get(), identity, mode, path);
}

Status rename_beneath(int root, const std::string& from, const std::string& to, bool replace) {
  HR_TRY(source, open_place(root, from));
  HR_TRY(target, open_place(root, to));
  if (::renameat2(source.directory, source.name.c_str(), target.directory, target.name.c_str(),
                  replace ? 0 : RENAME_NOREPLACE) != 0) {
    return system_error("rename", from, errno);
  }
  return {};
}

Status link_beneath(int root, const std::string& from, const std::string& to) {
  HR_TRY(source, open_place(root, from));
  HR_TRY(target, open_place(root, to));
  if (::linkat(source.directory, source.name.c_str(), target.directory, target.name.c_str(), 0) != 0) {
    return system_error("link", to, errno);
  }
  return {};
}

Status remove_file_beneath(int root, const std::string& path) {
  HR_TRY(place, open_place(root, path));
  if (::unlinkat(place.directory, place.name.c_str(), 0) != 0) {
    return system_error("remove", path, errno);
  }
  return {};
}

Status remove_directory_beneath(int root, const std::string& path) {
  HR_TRY(place, open_place(root, path));
  if (::unlinkat(place.directory, place.name.c_str(), AT_REMOVEDIR) != 0) {
    return system_error("remove directory", path, errno);
  }
  return {};
}

Status remove_tree_beneath(int root, const std::string& path) {
  HR_TRY(place, open_place(root, path));
  HR_TRY(identity, identify_at(place.directory, place.name));
  if (identity.type == FileType::absent) {
    return wrong_type("remove", path, identity.type);
  }
  const Status removed = remove_tree_at(place.directory, place.name);
  if (removed.has_error()) {
    return make_error(Code::io, "remove", path, removed.error().code + ": " + removed.error().detail);
  }
  return {};
}

}  // namespace hitchrail::pathfs
