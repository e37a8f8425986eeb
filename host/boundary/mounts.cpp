// The mounts of this process's namespace, from mountinfo.
#include <fcntl.h>

#include <cerrno>
#include <charconv>

#include "boundary/scan.hpp"
#include "core/file.hpp"
#include "core/text.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t max_mountinfo = 64u << 20;

Error unreadable(std::string_view line, const char* what) {
  return Error{ErrorClass::environment,
               "mounts-unreadable",
               "read mounts",
               "/proc/self/mountinfo",
               std::string(what) + ": " + escape_cut(line, 120),
               ""};
}

// The kernel writes space, tab, newline and backslash (and "#" in some fields) as three octal digits; a
// backslash that begins anything else was not written by it.
bool decode(std::string_view field, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\') {
      out.push_back(field[i]);
      continue;
    }
    unsigned value = 0;
    if (i + 3 >= field.size()) {
      return false;
    }
    for (std::size_t digit = 1; digit <= 3; ++digit) {
      const char c = field[i + digit];
      if (c < '0' || c > '7') {
        return false;
      }
      value = value * 8 + static_cast<unsigned>(c - '0');
    }
    if (value == 0 || value > 255) {
      return false;
    }
    out.push_back(static_cast<char>(value));
    i += 3;
  }
  return true;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

}  // namespace

Result<std::vector<Mount>> parse_mounts(std::string_view text) {
  constexpr std::string_view deleted = "//deleted";
  std::vector<Mount> mounts;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return unreadable(text, "a line without its end");
    }
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end + 1);
    std::string_view line = whole;
    Mount mount;
    const std::string_view id = next_word(line);
    const auto parsed = std::from_chars(id.data(), id.data() + id.size(), mount.id);
    (void)next_word(line);  // parent
    mount.device = std::string(next_word(line));
    mount.root = std::string(next_word(line));
    std::string_view point = next_word(line);
    if (parsed.ec != std::errc() || parsed.ptr != id.data() + id.size() || mount.device.empty() ||
        mount.root.empty() || point.empty()) {
      return unreadable(whole, "not a mount");
    }
    // Its mount point was removed: no path leads there. What the kernel cannot express from this root does
    // not begin with a slash.
    if (point.ends_with(deleted) || point.front() != '/') {
      continue;
    }
    if (!decode(point, mount.point)) {
      return unreadable(whole, "a mount point that the kernel does not write");
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Result<std::vector<Mount>> read_mounts() {
  const Fd file(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  auto read = file ? read_all(file.get(), max_mountinfo)
                   : Result<std::string>(errno_error("read mounts", "/proc/self/mountinfo", errno));
  if (read.has_error()) {
    Error error = std::move(read).error();
    error.kind = ErrorClass::environment;
    error.code = "mounts-unreadable";
    error.remedy = "Mount /proc: what lies below the granted roots cannot be told without it.";
    return error;
  }
  const std::string& text = read.value();
  HR_TRY(mounts, parse_mounts(text));
  if (mounts.empty()) {
    return unreadable(text, "no mount at all");
  }
  return mounts;
}

}  // namespace hitchrail::boundary
