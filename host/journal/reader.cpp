#include "journal/reader.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "journal/format.hpp"
#include "journal/scan.hpp"

namespace hitchrail::journal {
namespace {

constexpr std::size_t chunk = 256u << 10;
constexpr off_t tail_window = 64 << 10;  // more than the longest line a writer makes

// Asks which write lock stands in the way of reading [start, start + length): its first byte, or -1.
std::int64_t write_lock_at(int fd, std::int64_t start, std::int64_t length) {
  struct flock range {};
  range.l_type = F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  if (::fcntl(fd, F_OFD_GETLK, &range) != 0 || range.l_type == F_UNLCK) {
    return -1;
  }
  return range.l_start;
}

}  // namespace

struct Reader::State {
  Fd file;
  Fd notify;
  Hasher hasher;
  ChainCursor cursor{hasher};
  std::string buffer;             // from the first byte not yet given out
  std::size_t begin = 0;          // of the next line in it
  std::size_t want = chunk;       // how much is read at once; grows for a line that is longer
  std::uint64_t next_offset = 0;  // in the file, of `begin`
  std::uint64_t synced_to = 0;    // made durable by this reader, while no writer lived
  bool held_back = false;         // a commit in flight kept bytes back
  struct stat seen {};            // the file as it was before the last read

  Result<std::size_t> fill();
  Status settle(std::uint64_t end);
  [[nodiscard]] bool changed(const struct stat& now) const {
    return held_back || now.st_size != seen.st_size || now.st_mtim.tv_sec != seen.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != seen.st_mtim.tv_nsec;
  }
};

// Reads from the next line on, never keeping an unterminated one: a writer's successor may cut it and write
// another in its place. What is not durable yet is given up: while a writer lives, its locks say so; without
// one, whole lines may be left of a writer that died before its sync, and this reader makes them durable
// itself before it shows them. The bytes are read before the locks are asked for: what was read unsynced is
// still locked then, or has been synced since.
Result<std::size_t> Reader::State::fill() {
  buffer.resize(want);
  begin = 0;
  if (::fstat(file.get(), &seen) != 0) {
    return errno_error("stat", file_name, errno);
  }
  ssize_t got = 0;
  do {
    got = ::pread(file.get(), buffer.data(), want, static_cast<off_t>(next_offset));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    buffer.clear();
    return errno_error("read journal", file_name, errno);
  }
  auto usable = static_cast<std::uint64_t>(got);
  held_back = false;
  if (usable > 0) {
    const auto start = static_cast<std::int64_t>(next_offset);
    const std::int64_t locked = write_lock_at(file.get(), start, static_cast<std::int64_t>(usable));
    if (locked >= 0) {
      held_back = true;
      usable = std::min(usable, static_cast<std::uint64_t>(std::max<std::int64_t>(locked - start, 0)));
    } else if (write_lock_at(file.get(), alive_byte, 1) < 0) {
      const Status settled = settle(next_offset + usable);
      if (settled.has_error()) {
        buffer.clear();
        return settled.error();
      }
    }
  }
  buffer.resize(usable);
  return static_cast<std::size_t>(usable);
}

Status Reader::State::settle(std::uint64_t end) {
  if (end <= synced_to) {
    return {};
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return errno_error("stat", file_name, errno);
  }
  if (::fdatasync(file.get()) != 0 && errno != EROFS && errno != EINVAL) {
    return errno_error("sync journal", file_name, errno);
  }
  synced_to = std::max(end, static_cast<std::uint64_t>(info.st_size));
  return {};
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(int attempt_dirfd) {
  auto state = std::make_unique<State>();
  HR_TRY(file, open_journal(attempt_dirfd, O_RDONLY));
  state->file = std::move(file);
  return Reader(std::move(state));
}

Result<std::optional<Line>> Reader::next() {
  State& s = *state_;
  for (bool filled = false;;) {
    const std::string_view rest = std::string_view(s.buffer).substr(s.begin);
    const std::size_t end = rest.find('\n');
    if (end != std::string_view::npos) {
      const std::string_view text = rest.substr(0, end);
      Line line;
      line.offset = s.cursor.offset();
      LineView view;
      HR_CHECK(s.cursor.accept(text, view));
      s.begin += end + 1;
      s.next_offset += end + 1;
      s.want = chunk;
      line.sequence = view.sequence;
      line.kind = view.kind;
      line.text = text;
      line.payload = view.payload;
      line.hash = text.substr(text.size() - 73, 71);
      return std::optional<Line>(line);
    }
    if (filled) {
      if (s.buffer.size() < s.want) {
        return std::optional<Line>();
      }
      if (s.want > max_line) {
        return damaged(s.cursor.header_seen() ? s.cursor.sequence() + 1 : 0, s.cursor.offset(),
                       "it has no end");
      }
      s.want *= 2;
    }
    HR_TRY(got, s.fill());
    (void)got;
    filled = true;
  }
}

Result<bool> Reader::wait(std::chrono::milliseconds limit) {
  State& s = *state_;
  const auto until = std::chrono::steady_clock::now() + limit;
  if (!s.notify.valid()) {
    Fd notify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!notify.valid()) {
      return errno_error("wait for journal", file_name, errno);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(s.file.get());
    if (::inotify_add_watch(notify.get(), path.c_str(), IN_MODIFY) < 0) {
      return errno_error("wait for journal", file_name, errno);
    }
    s.notify = std::move(notify);
  }
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    // The watch stands before the size is asked, so no growth falls between.
    struct stat info {};
    if (::fstat(s.file.get(), &info) != 0) {
      return errno_error("stat", file_name, errno);
    }
    const bool more = s.changed(info);
    const bool in_flight =
        more && write_lock_at(s.file.get(), static_cast<std::int64_t>(s.next_offset), 1) >= 0;
    if (more && !in_flight) {
      return true;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return false;
    }
    // The end of a sync makes no inotify event: a commit in flight, which lasts milliseconds, is waited out
    // by looking.
    pollfd watch{s.notify.get(), POLLIN, 0};
    const auto time = in_flight ? std::min(left, pause) : left;
    const int ready = ::poll(&watch, 1, static_cast<int>(std::min<std::int64_t>(time.count(), 60'000)));
    if (ready < 0 && errno != EINTR) {
      return errno_error("wait for journal", file_name, errno);
    }
    alignas(inotify_event) char events[4096];
    while (::read(s.notify.get(), events, sizeof events) > 0) {
    }
    pause = in_flight ? std::min(pause * 2, std::chrono::milliseconds(50)) : std::chrono::milliseconds(1);
  }
}

Result<std::string> whole_payload(int attempt_dirfd, std::string_view payload) {
  HR_TRY(value, json::parse(payload, json::Duplicates::first_wins, "payload"));
  const json::Value& spill = value.get("spill");
  if (!value.get("spilled").as_bool() || !spill.is_object()) {
    return std::string(payload);
  }
  const std::string& name = spill.get("name").as_string();
  const auto spill_error = [&](const char* code, std::string detail) {
    return Error{ErrorClass::failed, code, "read spill", name, std::move(detail), ""};
  };
  // An adapter's own members may look like a reference: only a name this journal makes is opened.
  if (!name.starts_with("spill_") || name.find('/') != std::string::npos) {
    return spill_error("spill-missing", "the payload names no file of spill/");
  }
  auto directory = open_at(attempt_dirfd, spill_folder, O_RDONLY | O_DIRECTORY);
  if (directory.has_error()) {
    return spill_error("spill-missing", directory.error().detail);
  }
  auto bytes = read_file_at(directory.value().get(), name, max_payload);
  if (bytes.has_error()) {
    return spill_error("spill-missing", bytes.error().detail);
  }
  if (sha256_prefixed(bytes.value()) != spill.get("sha256").as_string()) {
    return spill_error("spill-damaged", "the bytes do not match the hash in the journal");
  }
  return bytes;
}

Result<Tail> read_tail(int attempt_dirfd) {
  HR_TRY(file, open_journal(attempt_dirfd, O_RDONLY));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return errno_error("stat", file_name, errno);
  }
  const off_t start = std::max<off_t>(0, info.st_size - 2 * tail_window);
  std::string bytes(static_cast<std::size_t>(info.st_size - start), '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), start);
  if (got < 0) {
    return errno_error("read journal", file_name, errno);
  }
  std::string_view text(bytes.data(), static_cast<std::size_t>(got));
  if (write_lock_at(file.get(), alive_byte, 1) >= 0) {
    const std::int64_t locked = write_lock_at(file.get(), start, static_cast<std::int64_t>(text.size()));
    if (locked >= 0) {
      text = text.substr(0, static_cast<std::size_t>(std::max<std::int64_t>(locked - start, 0)));
    }
  }
  const std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos || end == 0) {
    return Tail{};
  }
  const std::size_t before = text.rfind('\n', end - 1);
  if (before == std::string_view::npos) {
    return Tail{};  // the header
  }
  std::string_view line = text.substr(before + 1, end - before - 1);
  Tail tail;
  constexpr std::string_view kind_mark = ",\"kind\":\"";
  if (line.starts_with(event_prefix)) {
    line.remove_prefix(event_prefix.size());
    tail.sequence = std::strtoull(std::string(line.substr(0, 20)).c_str(), nullptr, 10);
    const std::size_t at = line.find(kind_mark);
    if (at != std::string_view::npos && at < 24) {
      line.remove_prefix(at + kind_mark.size());
      tail.kind = std::string(line.substr(0, line.find('"')));
    }
  }
  return tail;
}

bool has_writer(int attempt_dirfd) {
  const auto file = open_journal(attempt_dirfd, O_RDONLY);
  return file.has_value() && write_lock_at(file.value().get(), alive_byte, 1) >= 0;
}

bool is_terminal_kind(std::string_view kind) {
  return kind == "run.completed" || kind == "run.failed" || kind == "run.interrupted";
}

Result<Verified> verify(int attempt_dirfd) {
  HR_TRY(file, open_journal(attempt_dirfd, O_RDONLY));
  Hasher hasher;
  Verified verified;
  HR_TRY(end, scan(file.get(), hasher,
                   [&](const LineView& view, std::string_view, std::uint64_t offset) -> Status {
                     if (view.sequence == 0) {
                       return {};
                     }
                     std::string hash;
                     const Hash bytes = hasher.of(view.payload);
                     append_hex(hash, bytes.data(), bytes.size());
                     if (hash != view.payload_hash) {
                       return damaged(view.sequence, offset, "its payload does not match its payloadHash");
                     }
                     verified.terminal = verified.terminal || is_terminal_kind(view.kind);
                     return {};
                   }));
  verified.events = end.sequence;
  verified.bytes = end.size;
  verified.torn_bytes = end.torn_bytes;
  verified.last_line_hash = "sha256:";
  append_hex(verified.last_line_hash, end.last_hash.data(), end.last_hash.size());
  return verified;
}

}  // namespace hitchrail::journal
