#include "plugins/trusted_path.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

namespace hitchrail::plugins {
namespace {

Error unsafe(const std::string& component, std::string found, std::string remedy) {
  return {ErrorClass::refused,
          "plugin-path-unsafe",
          "open plugin path",
          component,
          "found " + std::move(found) +
              "; supported is a path of real directories owned by root or you, writable by nobody else",
          std::move(remedy)};
}

Status judge(const struct stat& status, const std::string& shown) {
  if (S_ISLNK(status.st_mode)) {
    return unsafe(shown, "a symbolic link", "Give the real path (realpath " + shown + ").");
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return unsafe(shown, "owner uid " + std::to_string(status.st_uid), "chown it to root or to yourself.");
  }
  const bool sticky_folder = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky_folder) {
    const char* who = (status.st_mode & S_IWOTH) != 0 ? "everybody" : "its group";
    return unsafe(shown, std::string("write permission for ") + who, "chmod go-w " + shown);
  }
  return {};
}

Error absent(const std::string& shown, int error_number) {
  Error error = errno_error("open plugin path", shown, error_number);
  error.kind = ErrorClass::refused;
  return error;
}

Result<std::string> absolute(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return unsafe(path, "an empty path or a NUL in it", "Give a path.");
  }
  if (path.front() == '/') {
    return path;
  }
  const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
  if (here == nullptr) {
    return absent(".", errno);
  }
  return std::string(here.get()) + "/" + path;
}

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (!part.empty() && part != ".") {
      out.push_back(part);
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

Result<Fd> open_trusted_at(int dirfd, const std::string& name, const std::string& shown, TrustedKind kind) {
  // The entry is judged as what it is (O_PATH does not follow, does not block), then the same inode is
  // opened.
  const Fd entry(::openat(dirfd, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!entry || ::fstat(entry.get(), &status) != 0) {
    return absent(shown, errno);
  }
  HR_CHECK(judge(status, shown));
  const bool wants_folder = kind == TrustedKind::directory;
  if (wants_folder ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode)) {
    return unsafe(shown,
                  wants_folder ? "something that is not a directory" : "something that is not a regular file",
                  "Give the adapter's .so file.");
  }
  Fd out(::openat(dirfd, name.c_str(),
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (wants_folder ? O_DIRECTORY : 0)));
  struct stat opened {};
  if (!out || ::fstat(out.get(), &opened) != 0) {
    return absent(shown, errno);
  }
  if (opened.st_dev != status.st_dev || opened.st_ino != status.st_ino) {
    return unsafe(shown, "another file than a moment before", "Try again when nobody changes the folder.");
  }
  return out;
}

Result<Fd> open_trusted(const std::string& path, TrustedKind kind) {
  HR_TRY(full, absolute(path));
  const std::vector<std::string> parts = components(full);
  Fd here(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat root {};
  if (!here || ::fstat(here.get(), &root) != 0) {
    return absent("/", errno);
  }
  HR_CHECK(judge(root, "/"));
  if (parts.empty() && kind == TrustedKind::file) {
    return unsafe("/", "a directory", "Give the adapter's .so file.");
  }
  std::string shown;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    shown += "/" + parts[i];
    if (parts[i] == "..") {
      return unsafe(shown, "a \"..\" component", "Give the path without it.");
    }
    HR_TRY(next, open_trusted_at(here.get(), parts[i], shown,
                                 i + 1 < parts.size() ? TrustedKind::directory : kind));
    here = std::move(next);
  }
  return here;
}

}  // namespace hitchrail::plugins
