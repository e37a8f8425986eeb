// Files of the conversation's home that become streams after the exit. Everything below the home was written
// by the harness: no link is followed, only regular files are read, the walk is bounded.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr int max_depth = 16;
constexpr std::uint32_t max_entries = 200000;

struct Best {
  int fd = -1;
  timespec changed{};
  std::uint32_t entries = 0;
};

// "*" and "?" within one component; neither matches a leading dot unless the pattern has it.
bool matches(const char* pattern, std::size_t size, const char* name) {
  if (name[0] == '.' && (size == 0 || pattern[0] != '.')) {
    return false;
  }
  std::size_t p = 0;
  std::size_t star = size + 1;
  const char* resume = nullptr;
  while (*name != 0) {
    if (p < size && pattern[p] == '*') {
      star = p++;
      resume = name;
    } else if (p < size && (pattern[p] == '?' || pattern[p] == *name)) {
      ++p;
      ++name;
    } else if (star <= size) {
      p = star + 1;
      name = ++resume;
    } else {
      return false;
    }
  }
  while (p < size && pattern[p] == '*') {
    ++p;
  }
  return p == size;
}

void consider(int dir, const char* name, Best& best) {
  const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0) {
    return;
  }
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      (best.fd >= 0 &&
       (info.st_mtim.tv_sec < best.changed.tv_sec ||
        (info.st_mtim.tv_sec == best.changed.tv_sec && info.st_mtim.tv_nsec <= best.changed.tv_nsec)))) {
    close(fd);
    return;
  }
  close_fd(best.fd);
  best.fd = fd;
  best.changed = info.st_mtim;
}

void walk(int dir_fd, const char* pattern, std::size_t size, int depth, Best& best) {
  const auto* slash = static_cast<const char*>(memchr(pattern, '/', size));
  const std::size_t component = slash != nullptr ? static_cast<std::size_t>(slash - pattern) : size;
  if (depth > max_depth || component == 0 || (component == 2 && memcmp(pattern, "..", 2) == 0)) {
    close(dir_fd);
    return;
  }
  DIR* dir = fdopendir(dir_fd);
  if (dir == nullptr) {
    close(dir_fd);
    return;
  }
  while (const dirent* entry = readdir(dir)) {
    if (++best.entries > max_entries) {
      break;
    }
    const char* name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !matches(pattern, component, name)) {
      continue;
    }
    if (slash == nullptr) {
      consider(dirfd(dir), name, best);
      continue;
    }
    const int below = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (below >= 0) {
      walk(below, slash + 1, size - component - 1, depth + 1, best);
    }
  }
  closedir(dir);
}

// Copies into the ring; answers whether the file was cut.
bool copy(int fd, Stream& stream) {
  static char block[32768];
  for (;;) {
    const std::uint64_t left = stream.max_bytes - stream.end;
    const std::size_t want = left < sizeof block ? static_cast<std::size_t>(left) : sizeof block;
    const ssize_t n = read(fd, block, want == 0 ? 1 : want);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return n < 0;
    }
    if (want == 0 || !pwrite_all(stream.ring, block, static_cast<std::size_t>(n), stream.end)) {
      return true;
    }
    stream.end += static_cast<std::uint64_t>(n);
  }
}

}  // namespace

bool copy_file_stream(std::size_t index) {
  Stream& stream = g.streams[index];
  const int home = !g.home_given ? -1 : openat(shim_home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Best best;
  if (home >= 0) {
    walk(home, stream.pattern, stream.pattern_size, 0, best);
  }
  std::uint64_t flags = eof_absent;
  if (best.fd >= 0) {
    flags = copy(best.fd, stream) ? std::uint64_t{eof_truncated} : 0;
    close(best.fd);
  }
  if (stream.end > 0 && !log_arrived(index)) {
    return false;
  }
  return log_eof(index, flags);
}

}  // namespace hitchrail::shim
