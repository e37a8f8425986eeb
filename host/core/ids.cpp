#include "core/ids.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <time.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "core/file.hpp"

namespace hitchrail {
namespace {

std::int64_t clock_nanos(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Result<std::string> read_proc(const std::string& path, std::size_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return errno_error("open", path, errno);
  }
  return read_all(fd.get(), max_bytes);
}

}  // namespace

void random_bytes(void* out, std::size_t size) {
  auto* at = static_cast<unsigned char*>(out);
  while (size > 0) {
    const ssize_t n = ::getrandom(at, size, 0);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      std::abort();  // without randomness no token and no id may be made
    }
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

std::string random_id(std::string_view prefix, std::size_t length) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id(prefix);
  unsigned char pool[64];
  while (length > 0) {
    random_bytes(pool, sizeof pool);
    for (const unsigned char byte : pool) {
      // 248 = 4 * 62: larger bytes would favour the first letters.
      if (byte < 248 && length > 0) {
        id.push_back(kAlphabet[byte % 62]);
        --length;
      }
    }
  }
  return id;
}

std::int64_t unix_millis_now() {
  return clock_nanos(CLOCK_REALTIME) / 1'000'000;
}

std::int64_t monotonic_nanos() {
  return clock_nanos(CLOCK_MONOTONIC);
}

std::string iso8601(std::int64_t unix_millis) {
  std::int64_t seconds = unix_millis / 1000;
  std::int64_t millis = unix_millis % 1000;
  if (millis < 0) {
    millis += 1000;
    --seconds;
  }
  const time_t when = seconds;
  tm parts{};
  ::gmtime_r(&when, &parts);
  char buffer[96];
  const int n = std::snprintf(buffer, sizeof buffer, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                              parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                              parts.tm_min, parts.tm_sec, static_cast<int>(millis));
  return {buffer, static_cast<std::size_t>(n)};
}

std::string boot_id() {
  static const std::string id = [] {
    auto text = read_proc("/proc/sys/kernel/random/boot_id", 64);
    if (text.has_error()) {
      return std::string();
    }
    return text->substr(0, text->find_last_not_of('\n') + 1);
  }();
  return id;
}

Result<ProcessIdentity> identify_process(int pid) {
  const std::string object = "process " + std::to_string(pid);
  auto text = read_proc("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (text.has_error()) {
    if (text.error().code == "enoent") {
      return errno_error("identify", object, ESRCH);
    }
    return text.error();
  }
  // The second field is the command in parentheses and may itself hold spaces and parentheses: count after
  // the last one.
  const std::string_view stat = *text;
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string_view::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  ProcessIdentity identity{boot_id(), pid, 0};
  if (at == std::string_view::npos ||
      std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), identity.start_ticks).ec !=
          std::errc()) {
    return Error{ErrorClass::environment,
                 "process-identity",
                 "identify",
                 object,
                 "/proc gives no start time for this process",
                 "mount a complete /proc"};
  }
  if (identity.boot_id.empty()) {
    return Error{ErrorClass::environment,
                 "process-identity",
                 "identify",
                 object,
                 "/proc/sys/kernel/random/boot_id cannot be read",
                 "mount a complete /proc"};
  }
  return identity;
}

}  // namespace hitchrail
