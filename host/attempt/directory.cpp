// Attempt directories: opening, finding by prefix, the lock.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "attempt/attempt.hpp"
#include "attempt/names.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::attempt {
namespace {

Error attempt_error(ErrorClass kind, const char* code, const std::string& id, std::string detail,
                    std::string remedy = "") {
  return Error{kind, code, "open attempt", id, std::move(detail), std::move(remedy)};
}

Status check_directory(int fd, const std::string& id) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return errno_error("stat", id, errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0) {
    return attempt_error(ErrorClass::refused, "attempt-unsafe", id,
                         "its directory is foreign or open to others",
                         "chmod 700 it after looking at what is inside");
  }
  return {};
}

// Absent attempts/ is no error: nothing has been run yet.
Result<Fd> open_attempts(int state_dirfd) {
  auto fd = open_at(state_dirfd, attempts_folder, O_RDONLY | O_DIRECTORY);
  if (fd.has_error()) {
    return fd.error().code == "enoent" ? Fd() : std::move(fd);
  }
  HR_CHECK(check_directory(fd.value().get(), attempts_folder));
  return fd;
}

bool plausible_id(const std::string& name) {
  return name.starts_with(id_prefix) && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-';
         });
}

Result<std::vector<std::string>> directory_names(int attempts_dirfd) {
  HR_TRY(names, list_directory(attempts_dirfd));
  std::erase_if(names, [](const std::string& name) { return !plausible_id(name); });
  return names;
}

Result<std::string> resolve_id(int attempts_dirfd, const std::string& given) {
  HR_TRY(names, directory_names(attempts_dirfd));
  const std::string with_prefix = given.starts_with(id_prefix) ? given : id_prefix + given;
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name == given) {
      return name;
    }
    if (!given.empty() && name.starts_with(with_prefix) &&
        with_prefix.size() > std::string(id_prefix).size()) {
      found.push_back(name);
    }
  }
  if (found.empty()) {
    return attempt_error(ErrorClass::usage, "attempt-not-found", given,
                         "no attempt has this id or begins with it", "hitchrail runs list");
  }
  if (found.size() > 1) {
    return attempt_error(
        ErrorClass::usage, "attempt-ambiguous", given,
        std::to_string(found.size()) + " attempts begin with it, among them " + found[0] + " and " + found[1],
        "give more characters");
  }
  return found[0];
}

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<Fd> take_lock(int attempt_dirfd, int wait_ms) {
  HR_TRY(file, open_at(attempt_dirfd, lock_name, O_RDWR | O_CREAT | O_NONBLOCK, 0600));
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  for (;;) {
    struct flock lock = whole_file(F_WRLCK);
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) {
      return file;
    }
    if (errno != EAGAIN && errno != EACCES) {
      return errno_error("lock attempt", lock_name, errno);
    }
    if (std::chrono::steady_clock::now() >= until) {
      return attempt_error(ErrorClass::failed, "attempt-locked", lock_name,
                           "another process starts or recovers it", "try again in a moment");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool lock_is_held(int attempt_dirfd) {
  const auto file = open_at(attempt_dirfd, lock_name, O_RDONLY | O_NONBLOCK);
  struct flock lock = whole_file(F_WRLCK);
  return file.has_value() && ::fcntl(file.value().get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string new_attempt_id() {
  return random_id(id_prefix, 18);
}

Result<Directory> Directory::open(int state_dirfd, const std::string& id) {
  HR_TRY(attempts, open_attempts(state_dirfd));
  if (!attempts.valid()) {
    return attempt_error(ErrorClass::usage, "attempt-not-found", id, "nothing has been run yet");
  }
  HR_TRY(name, resolve_id(attempts.get(), id));
  auto fd = open_at(attempts.get(), name, O_RDONLY | O_DIRECTORY);
  if (fd.has_error()) {
    return fd.error().code == "enoent"
               ? attempt_error(ErrorClass::usage, "attempt-not-found", id, "it was removed meanwhile")
               : attempt_error(ErrorClass::refused, "attempt-unsafe", name,
                               "it is a link or not a directory");
  }
  HR_TRY(directory, adopt(std::move(fd).value()));
  if (directory.id() != name) {
    return attempt_error(ErrorClass::failed, "attempt-damaged", name, "its header names another attempt");
  }
  return directory;
}

Result<Directory> Directory::adopt(Fd attempt_dirfd) {
  HR_CHECK(check_directory(attempt_dirfd.get(), "attempt directory"));
  HR_TRY(text, read_file_at(attempt_dirfd.get(), header_name, max_document));
  HR_TRY(header, json::parse(text, json::Duplicates::refuse, header_name));
  const std::string id = header.get("attemptId").as_string();
  if (!plausible_id(id)) {
    return attempt_error(ErrorClass::failed, "attempt-damaged", header_name, "it names no attempt");
  }
  return Directory(std::move(attempt_dirfd), id, std::move(header));
}

Result<Lock> Directory::lock(int wait_ms) const {
  auto fd = take_lock(fd_.get(), wait_ms);
  if (fd.has_error()) {
    Error error = std::move(fd).error();
    error.object = id_;
    return error;
  }
  return Lock(std::move(fd).value());
}

bool Directory::locked() const {
  return lock_is_held(fd_.get());
}

Result<std::vector<std::string>> list_ids(int state_dirfd) {
  HR_TRY(attempts, open_attempts(state_dirfd));
  if (!attempts.valid()) {
    return std::vector<std::string>();
  }
  HR_TRY(names, directory_names(attempts.get()));
  std::vector<std::pair<std::int64_t, std::string>> by_time;
  for (std::string& name : names) {
    std::int64_t created = 0;
    const auto directory = open_at(attempts.get(), name, O_RDONLY | O_DIRECTORY);
    if (directory.has_value()) {
      const auto text = read_file_at(directory.value().get(), header_name, max_document);
      const auto header = text.has_value() ? json::parse(text.value(), json::Duplicates::refuse)
                                           : Result<json::Value>(text.error());
      created = header.has_value() ? header.value().get("createdUnixMs").as_int().value_or(0) : 0;
    }
    by_time.emplace_back(created, std::move(name));
  }
  std::sort(by_time.begin(), by_time.end());
  std::vector<std::string> ids;
  for (auto& [created, name] : by_time) {
    ids.push_back(std::move(name));
  }
  return ids;
}

Result<LeaseHolder> lease_holder(int state_dirfd, const std::string& attempt_id) {
  HR_TRY(attempts, open_attempts(state_dirfd));
  if (!attempts.valid() || !plausible_id(attempt_id)) {
    return LeaseHolder::gone;
  }
  // In this order: the rename to the final name comes after the lease, so who is not under the first name is
  // under the second, or died.
  const std::string building = std::string(building_prefix) + attempt_id;
  if (const auto fd = open_at(attempts.get(), building, O_RDONLY | O_DIRECTORY);
      fd.has_value() && lock_is_held(fd.value().get())) {
    return LeaseHolder::live;
  }
  auto fd = open_at(attempts.get(), attempt_id, O_RDONLY | O_DIRECTORY);
  if (fd.has_error()) {
    return fd.error().code == "enoent" ? Result<LeaseHolder>(LeaseHolder::gone) : std::move(fd).error();
  }
  HR_TRY(directory, Directory::adopt(std::move(fd).value()));
  HR_TRY(now, status(directory));
  if (now.terminal()) {
    return LeaseHolder::terminal;
  }
  return now.live() ? LeaseHolder::live : LeaseHolder::needs_recovery;
}

}  // namespace hitchrail::attempt
