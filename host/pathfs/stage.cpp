// New content beside its target, and the renames by which a name changes only if it is still the file that
// was judged.
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#include <cerrno>

#include "core/file.hpp"
#include "core/ids.hpp"
#include "pathfs/internal.hpp"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

namespace hitchrail::pathfs {
namespace {

Status fill(int fd, std::string_view bytes, const StageOptions& options, const std::string& label) {
  const Status written = write_all(fd, bytes);
  if (written.has_error()) {
    return make_error(Code::io, "write", label, written.error().code + ": " + written.error().detail);
  }
  if (options.owner && ::fchown(fd, options.owner->uid, options.owner->gid) != 0) {
    return system_error("change owner", label, errno);
  }
  if (options.like && ::fchown(fd, options.like->uid, options.like->gid) != 0 &&
      ::fchown(fd, static_cast<uid_t>(-1), options.like->gid) != 0 && errno != EPERM) {
    return system_error("change owner", label, errno);
  }
  if (::fchmod(fd, options.mode) != 0) {  // after the owner: chown takes set-id bits away
    return system_error("change mode", label, errno);
  }
  if (options.sync && ::fsync(fd) != 0) {
    return system_error("sync", label, errno);
  }
  return {};
}

}  // namespace

std::string temporary_name() {
  return random_id(std::string(temporary_prefix), 20);
}

Result<Staged> stage(int directory, std::string_view bytes, const StageOptions& options,
                     const std::string& label) {
  Staged out;
  out.name = temporary_name();
  out.fd.reset(::openat(directory, out.name.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!out.fd) {
    return system_error("write", label, errno);
  }
  Status done = fill(out.fd.get(), bytes, options, label);
  auto identity = identify(out.fd.get());
  if (done.has_value() && identity.has_error()) {
    done = identity.error();
  }
  if (done.has_error()) {
    ::unlinkat(directory, out.name.c_str(), 0);
    return done.error();
  }
  out.identity = identity.value();
  return out;
}

bool same_content(const Identity& a, const Identity& b) {
  return a.same_file(b) && a.size == b.size && a.modified_ns == b.modified_ns && a.mode == b.mode &&
         a.uid == b.uid && a.gid == b.gid;
}

Status rename_new(int from_dir, const std::string& from, int to_dir, const std::string& to,
                  const std::string& label) {
  if (::renameat2(from_dir, from.c_str(), to_dir, to.c_str(), RENAME_NOREPLACE) != 0) {
    return system_error("rename", label, errno);
  }
  return {};
}

Status exchange_expected(int directory, const std::string& staged, const std::string& name,
                         const Identity& expected, const std::string& label) {
  HR_TRY(before, identify_at(directory, name));
  if (!same_content(before, expected)) {
    return before.type == FileType::regular || before.type == FileType::absent
               ? stale("replace", label)
               : wrong_type("replace", label, before.type);
  }
  if (::renameat2(directory, staged.c_str(), directory, name.c_str(), RENAME_EXCHANGE) != 0) {
    return errno == ENOENT ? stale("replace", label) : system_error("replace", label, errno);
  }
  HR_TRY(taken, identify_at(directory, staged));
  if (!same_content(taken, expected)) {  // exchanged between the look and the rename: it goes back
    ::renameat2(directory, staged.c_str(), directory, name.c_str(), RENAME_EXCHANGE);
    return stale("replace", label);
  }
  return {};
}

Result<std::string> set_aside(int directory, const std::string& name, const Identity& expected,
                              const std::string& label) {
  std::string aside = temporary_name();
  HR_CHECK(rename_new(directory, name, directory, aside, label));
  HR_TRY(taken, identify_at(directory, aside));
  if (!same_content(taken, expected)) {
    ::renameat2(directory, aside.c_str(), directory, name.c_str(), RENAME_NOREPLACE);
    return stale("remove", label);
  }
  return aside;
}

Status change_mode(int fd, const Identity& identity, mode_t mode, const std::string& label) {
  if (identity.type != FileType::regular && identity.type != FileType::directory) {
    return wrong_type("change mode", label, identity.type);
  }
  const mode_t bits = mode & 07777;
  const auto real = reopen(fd, O_RDONLY, label);
  if (real.has_value()) {
    return ::fchmod(real.value().get(), bits) == 0 ? Status{} : system_error("change mode", label, errno);
  }
  // A file that we may not read: fchmod refuses a descriptor that was opened for its path only.
  if (::syscall(SYS_fchmodat2, fd, "", bits, AT_EMPTY_PATH) == 0) {
    return {};
  }
  if (::chmod(("/proc/self/fd/" + std::to_string(fd)).c_str(), bits) != 0) {
    return system_error("change mode", label, errno == ENOENT ? ENOTSUP : errno);  // no /proc here
  }
  return {};
}

Status sync_directory(int dirfd, const std::string& label) {
  const Fd directory(::openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    return errno == EACCES ? Status{} : system_error("sync directory", label, errno);
  }
  return ::fsync(directory.get()) == 0 ? Status{} : system_error("sync directory", label, errno);
}

}  // namespace hitchrail::pathfs
