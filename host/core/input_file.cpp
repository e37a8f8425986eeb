#include "core/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "core/fd.hpp"

namespace hitchrail {
namespace {

class Input {
 public:
  Input(const std::string& path, const InputRule& rule) : path_(path), rule_(&rule) {}

  [[nodiscard]] Error refuse(const char* what, std::string detail, std::string remedy) const {
    return Error{ErrorClass::usage,
                 rule_->subject + what,
                 "read the " + rule_->subject,
                 path_ == "-" ? "standard input" : path_,
                 std::move(detail),
                 std::move(remedy)};
  }
  [[nodiscard]] Error unreadable(int error_number) const {
    Error error = errno_error("read the " + rule_->subject, path_, error_number);
    return refuse("-file-unreadable", error.detail, "name a file that you may read");
  }
  [[nodiscard]] Error too_large(std::size_t size) const {
    return refuse("-too-large",
                  (size > rule_->max_bytes + 1 ? std::to_string(size) + " bytes"
                                               : "more than " + std::to_string(rule_->max_bytes) + " bytes") +
                      ", at most " + std::to_string(rule_->max_bytes),
                  rule_->too_large_remedy);
  }

 private:
  std::string path_;
  const InputRule* rule_;
};

// At most `max` + 1 bytes from the descriptor's place (a stream) or from the start (a file); nothing on an
// error, with errno.
std::optional<std::string> read_bytes(int fd, std::size_t max, bool stream) {
  std::string text(max + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const std::size_t want = text.size() - size;
    const ssize_t count = stream ? ::read(fd, text.data() + size, want)
                                 : ::pread(fd, text.data() + size, want, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return std::nullopt;
    }
    if (count == 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

bool same_time(const timespec& one, const timespec& two) {
  return one.tv_sec == two.tv_sec && one.tv_nsec == two.tv_nsec;
}

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

Result<std::string> read_standard_input(const Input& input, const InputRule& rule) {
  const auto text = read_bytes(STDIN_FILENO, rule.max_bytes, true);
  if (!text) {
    return input.unreadable(errno);
  }
  if (text->size() > rule.max_bytes) {
    return input.too_large(text->size());
  }
  return *text;
}

}  // namespace

Result<std::string> read_input_file(const std::string& path, const InputRule& rule) {
  const Input input(path, rule);
  const std::string stdin_remedy = rule.standard_input ? ", or `-` and standard input" : "";
  if (path == "-" && rule.standard_input) {
    return read_standard_input(input, rule);
  }
  // O_NONBLOCK: a FIFO without a writer, or a file under a lease, would hold the caller for as long as they
  // like.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file && (errno == ELOOP || errno == ENXIO)) {
    return input.refuse("-file-unsafe", errno == ELOOP ? "it is a link" : "it is a socket or a device",
                        "name the file itself" + stdin_remedy);
  }
  if (!file) {
    return input.unreadable(errno);
  }
  struct stat before {};
  if (::fstat(file.get(), &before) != 0) {
    return input.unreadable(errno);
  }
  if (!S_ISREG(before.st_mode)) {
    return input.refuse("-file-unsafe", std::string("it is ") + kind_of(before.st_mode),
                        "name a regular file" + stdin_remedy);
  }
  if (before.st_size > static_cast<off_t>(rule.max_bytes)) {
    return input.too_large(static_cast<std::size_t>(before.st_size));
  }
  const auto first = read_bytes(file.get(), rule.max_bytes, false);
  // Clocks of file systems tick coarsely: a change within one tick shows only in the bytes.
  const auto second = first ? read_bytes(file.get(), rule.max_bytes, false) : std::nullopt;
  struct stat after {};
  if (!first || !second || ::fstat(file.get(), &after) != 0) {
    return input.unreadable(errno);
  }
  if (*first != *second || static_cast<off_t>(first->size()) != before.st_size ||
      after.st_size != before.st_size || !same_time(after.st_mtim, before.st_mtim) ||
      !same_time(after.st_ctim, before.st_ctim)) {
    return input.refuse("-file-changed", "it changed while it was read", "try again when nothing writes it");
  }
  return *first;
}

}  // namespace hitchrail
