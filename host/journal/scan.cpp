#include "journal/scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/file.hpp"

namespace hitchrail::journal {
namespace {

constexpr std::size_t chunk = 1u << 20;

}  // namespace

Result<Fd> open_journal(int attempt_dirfd, int flags) {
  auto file = open_at(attempt_dirfd, file_name, flags | O_NONBLOCK);
  struct stat info {};
  const auto unsafe = [](std::string detail) {
    return Error{ErrorClass::failed, "journal-unsafe",
                 "open journal",     file_name,
                 std::move(detail),  "the attempt directory was changed from outside; keep it as evidence"};
  };
  if (file.has_error()) {
    if (file.error().code == "enoent") {
      return Error{
          ErrorClass::failed, "journal-absent", "open journal", file_name, "the attempt has no journal", ""};
    }
    if (::fstatat(attempt_dirfd, file_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(info.st_mode)) {
      return unsafe("it is a link or another kind of file");
    }
    return std::move(file).error();
  }
  if (::fstat(file.value().get(), &info) != 0) {
    return errno_error("stat", file_name, errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1 ||
      (info.st_mode & 022) != 0) {
    return unsafe("it is not a regular file of ours alone");
  }
  return file;
}

Status ChainCursor::accept(std::string_view text, LineView& view) {
  view = {};
  const std::uint64_t number = header_seen_ ? sequence_ + 1 : 0;
  const std::string_view reason = check_line(text, !header_seen_, last_, number, hasher_, view);
  if (!reason.empty()) {
    return damaged(number, offset_, reason);
  }
  last_ = view.hash;
  sequence_ = number;
  header_seen_ = true;
  offset_ += text.size() + 1;
  return {};
}

Status ChainCursor::accept_tail(std::string_view tail) {
  const std::uint64_t number = header_seen_ ? sequence_ + 1 : 0;
  if (tail.size() > max_line || tail_hides_line(tail, !header_seen_, last_, number, hasher_)) {
    return damaged(number, offset_, "its line feed is missing although more follows");
  }
  return {};
}

Result<ScanEnd> scan(int fd, Hasher& hasher,
                     const std::function<Status(const LineView&, std::string_view, std::uint64_t)>& line) {
  ChainCursor cursor(hasher);
  std::string buffer;
  std::size_t begin = 0;     // of the first byte not yet taken
  std::size_t searched = 0;  // no line feed before this
  off_t offset = 0;
  for (;;) {
    if (begin > 0) {
      buffer.erase(0, begin);
      searched -= begin;
      begin = 0;
    }
    const std::size_t old = buffer.size();
    buffer.resize(old + chunk);
    const ssize_t got = ::pread(fd, buffer.data() + old, chunk, offset);
    buffer.resize(old + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_error("read journal", file_name, errno);
    }
    offset += got;
    for (;;) {
      const void* found = std::memchr(buffer.data() + searched, '\n', buffer.size() - searched);
      if (found == nullptr) {
        searched = buffer.size();
        break;
      }
      const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer.data());
      const std::string_view text(buffer.data() + begin, end - begin);
      const std::uint64_t at = cursor.offset();
      LineView view;
      HR_CHECK(cursor.accept(text, view));
      HR_CHECK(line(view, text, at));
      begin = searched = end + 1;
    }
    if (got == 0 || buffer.size() - begin > max_line) {
      break;
    }
  }
  const std::string_view tail = std::string_view(buffer).substr(begin);
  HR_CHECK(cursor.accept_tail(tail));
  if (!cursor.header_seen()) {
    return damaged(0, 0, "it is not there as a whole");
  }
  return ScanEnd{cursor.offset(), cursor.sequence(), tail.size(), cursor.last_hash()};
}

}  // namespace hitchrail::journal
