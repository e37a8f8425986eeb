#include "journal/spill.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/file.hpp"
#include "journal/format.hpp"

namespace hitchrail::journal {
namespace {

Error unsafe(const std::string& object, std::string detail) {
  return Error{ErrorClass::failed, "journal-unsafe",
               "write spill",      object,
               std::move(detail),  "nobody else may write below the attempt directory"};
}

}  // namespace

Result<Spill> Spill::open(int attempt_dirfd) {
  if (::mkdirat(attempt_dirfd, spill_folder, 0700) != 0 && errno != EEXIST) {
    return errno_error("make directory", spill_folder, errno);
  }
  HR_TRY(directory, open_at(attempt_dirfd, spill_folder, O_RDONLY | O_DIRECTORY));
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0) {
    return errno_error("stat", spill_folder, errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return unsafe(spill_folder, "the directory is foreign or writable by others");
  }
  Spill spill;
  HR_TRY(names, list_directory(directory.get()));
  for (const std::string& name : names) {
    if (::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
      spill.bytes_ += static_cast<std::uint64_t>(info.st_size);
    }
  }
  spill.directory_ = std::move(directory);
  return spill;
}

Status Spill::write(const std::string& name, std::string_view bytes) {
  HR_TRY(file, open_at(directory_.get(), name, O_WRONLY | O_CREAT | O_NONBLOCK, 0600));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return errno_error("stat", name, errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1) {
    return unsafe(name, "it is not a file of ours alone");
  }
  if (info.st_size != 0 && ::ftruncate(file.get(), 0) != 0) {
    return errno_error("truncate", name, errno);
  }
  HR_CHECK(write_all(file.get(), bytes));
  bytes_ = bytes_ - static_cast<std::uint64_t>(info.st_size) + bytes.size();
  names_unsynced_ = true;
  unsynced_.push_back(std::move(file));
  return unsynced_.size() >= max_open ? sync_files(sync_file_) : Status{};
}

Status Spill::sync_files(int (*sync_file)(int)) {
  for (const Fd& file : unsynced_) {
    if ((sync_file != nullptr ? sync_file : ::fdatasync)(file.get()) != 0) {
      return errno_error("sync spill", spill_folder, errno);
    }
  }
  unsynced_.clear();
  return {};
}

Status Spill::sync(int (*sync_file)(int)) {
  sync_file_ = sync_file;
  HR_CHECK(sync_files(sync_file));
  if (names_unsynced_ && ::fsync(directory_.get()) != 0) {
    return errno_error("sync spill", spill_folder, errno);
  }
  names_unsynced_ = false;
  return {};
}

}  // namespace hitchrail::journal
