// The rings and the log of arrivals. A ring is one sparse memfd with absolute offsets; committed pages are
// punched out, so an idle run holds none. The log keeps the order of all that happened until a commit covers
// it.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::size_t read_size = 64u << 10;
constexpr std::size_t turn_bytes = 4u << 20;  // one stream's share before the others get their turn
constexpr std::uint64_t page = 4096;
constexpr unsigned memfd_noexec_seal = 8;  // MFD_NOEXEC_SEAL, Linux 6.3
alignas(4096) unsigned char read_buffer[read_size];

std::uint64_t ring_bytes() {
  return g.limits.ring_bytes == 0 ? default_ring_bytes : g.limits.ring_bytes;
}

bool grow_log() {
  const std::uint64_t wanted = g.log.capacity == 0 ? 64 : g.log.capacity * 2;
  if (wanted > log_limit) {
    return false;
  }
  auto* fresh = static_cast<Entry*>(malloc(wanted * sizeof(Entry)));
  if (fresh == nullptr) {
    return false;
  }
  for (std::uint64_t i = g.log.head; i < g.log.tail; ++i) {
    fresh[i & (wanted - 1)] = g.log.at(i);
  }
  free(g.log.entries);
  g.log.entries = fresh;
  g.log.capacity = wanted;
  return true;
}

// Covered entries behind an uncovered one stay until space is needed.
void compact_log() {
  Log& log = g.log;
  std::uint64_t kept = log.tail;
  std::uint64_t cursor = log.tail;
  std::uint64_t sent = log.tail;
  for (std::uint64_t i = log.tail; i-- > log.head;) {
    if (i >= log.cursor || !covered(log.at(i))) {
      log.at(--kept) = log.at(i);
    } else {
      free(log.at(i).payload);
      log.payload_bytes -= log.at(i).payload_size;
    }
    cursor = i == log.cursor ? kept : cursor;
    sent = i == log.sent ? kept : sent;
  }
  log.head = kept;
  log.cursor = cursor;
  log.sent = sent;
}

Entry* push_entry() {
  if (g.log.tail - g.log.head == g.log.capacity && !grow_log()) {
    compact_log();
    if (g.log.tail - g.log.head == g.log.capacity) {
      return nullptr;
    }
  }
  Entry& entry = g.log.at(g.log.tail);
  entry = Entry{};
  entry.at_ms = unix_ms();
  ++g.log.tail;
  return &entry;
}

bool crowded() {
  return g.log.tail - g.log.head > log_limit / 4;
}

// Stores bytes that were read; false leaves them in the stash.
bool store(Stream& stream, const unsigned char* data, std::size_t size) {
  const std::size_t stashed = stream.stash.size();
  if (stashed > 0) {
    if (!pwrite_all(stream.ring, stream.stash.data(), stashed, stream.end)) {
      return false;
    }
    stream.end += stashed;
    stream.stash.consume(stashed);
  }
  if (size > 0 && !pwrite_all(stream.ring, data, size, stream.end)) {
    // Memory is short. What was read may not be lost: it waits here, nothing more is read, and a tick tries
    // again.
    if (!stream.stash.append(data, size)) {
      set_cause("shim-memory", "no memory for bytes of the harness");
      raise_event(event_cause);
    }
    return false;
  }
  stream.end += size;
  return true;
}

void log_end(std::size_t index) {
  Stream& stream = g.streams[index];
  if (stream.source >= 0) {
    unwatch(stream.source);
    close_fd(stream.source);
  }
  stream.paused = false;
  if (stream.stash.size() == 0 && stream.logged == stream.end && log_eof(index, 0) &&
      g.streams[stream_stdout].eof && g.streams[stream_stderr].eof) {
    raise_event(event_drained);
  }
}

}  // namespace

bool make_rings() {
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    Stream& stream = g.streams[i];
    stream.ring = memfd_create("hitchrail-ring", MFD_CLOEXEC | memfd_noexec_seal);
    if (stream.ring < 0 && errno == EINVAL) {
      stream.ring = memfd_create("hitchrail-ring", MFD_CLOEXEC);
    }
    if (stream.ring < 0 || fchmod(stream.ring, 0400) != 0) {
      fail_start("ring", errno, "memfd_create");
      return false;
    }
    char path[40] = "/proc/self/fd/";
    format_number(path + strlen(path), static_cast<std::uint64_t>(stream.ring));
    stream.ring_reader = open(path, O_RDONLY | O_CLOEXEC);
    if (stream.ring_reader < 0) {
      fail_start("ring", errno, "read-only descriptor");
      return false;
    }
  }
  return true;
}

bool covered(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::arrived:
      return entry.a <= g.streams[entry.stream].mapped;
    case EntryKind::eof:
      return g.streams[entry.stream].processed != 0;
    case EntryKind::input:
      return entry.a <= g.covered_input;
  }
  return false;
}

void drop_covered() {
  Log& log = g.log;
  while (log.head < log.cursor && covered(log.at(log.head))) {
    free(log.at(log.head).payload);
    log.payload_bytes -= log.at(log.head).payload_size;
    ++log.head;
  }
  if (log.head == log.tail && log.capacity > 1024) {
    free(log.entries);
    log.entries = nullptr;
    log.capacity = 0;
  }
}

bool log_arrived(std::size_t index) {
  Log& log = g.log;
  Stream& stream = g.streams[index];
  // Never sent: may be joined. Only directly behind each other, so that the order of streams stays; a crowded
  // log looks a little further back.
  const std::uint64_t reach = crowded() ? 8 : 1;
  std::uint64_t floor = log.sent > log.cursor ? log.sent : log.cursor;
  floor = floor > log.head ? floor : log.head;
  Entry* entry = nullptr;
  for (std::uint64_t i = log.tail; i > floor && log.tail - i < reach && entry == nullptr; --i) {
    Entry& candidate = log.at(i - 1);
    if (candidate.kind == EntryKind::arrived && candidate.stream == index) {
      entry = &candidate;
    }
  }
  if (entry == nullptr) {
    entry = push_entry();
    if (entry == nullptr) {
      return false;
    }
    entry->kind = EntryKind::arrived;
    entry->stream = static_cast<std::uint32_t>(index);
  }
  entry->a = stream.end;
  entry->at_ms = unix_ms();
  stream.logged = stream.end;
  return true;
}

bool log_eof(std::size_t index, std::uint64_t flags) {
  Stream& stream = g.streams[index];
  if (stream.eof) {
    return true;
  }
  Entry* entry = push_entry();
  if (entry == nullptr) {
    return false;
  }
  entry->kind = EntryKind::eof;
  entry->stream = static_cast<std::uint32_t>(index);
  entry->a = stream.end;
  entry->b = flags;
  stream.eof = true;
  return true;
}

std::uint64_t log_input(InputKind kind, const void* head, std::size_t head_size, const void* rest,
                        std::size_t rest_size) {
  auto* payload = static_cast<unsigned char*>(malloc(head_size + rest_size + 1));
  Entry* entry = payload != nullptr ? push_entry() : nullptr;
  if (entry == nullptr) {
    free(payload);
    return 0;
  }
  memcpy(payload, head, head_size);
  if (rest_size > 0) {
    memcpy(payload + head_size, rest, rest_size);
  }
  entry->kind = EntryKind::input;
  entry->a = ++g.last_input;
  entry->b = kind;
  entry->payload = payload;
  entry->payload_size = static_cast<std::uint32_t>(head_size + rest_size);
  g.log.payload_bytes += entry->payload_size;
  return entry->a;
}

void read_stream(std::size_t index) {
  Stream& stream = g.streams[index];
  std::size_t turn = 0;
  bool ended = false;
  while (stream.source >= 0 && !stream.paused && turn < turn_bytes) {
    const ssize_t n = read(stream.source, read_buffer, read_size);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      break;
    }
    if (n <= 0) {  // a reset is an end: whatever was sent before has been read
      ended = true;
      break;
    }
    turn += static_cast<std::size_t>(n);
    if (!store(stream, read_buffer, static_cast<std::size_t>(n))) {
      break;
    }
    if (stream.end - stream.mapped >= ring_bytes() || static_cast<std::size_t>(n) < read_size) {
      break;
    }
  }
  if (stream.end != stream.logged) {
    log_arrived(index);  // a full log pauses the stream below
  }
  if (ended) {
    log_end(index);
  }
  update_reading(index);
}

// Pauses and resumes a stream. A paused harness is blocked in its write: that is journaled once an episode.
void update_reading(std::size_t index) {
  Stream& stream = g.streams[index];
  if (stream.source < 0) {
    return;
  }
  const std::uint64_t pending = stream.end - stream.mapped;
  const bool full = stream.blocked ? pending >= ring_bytes() / 4 * 3 : pending >= ring_bytes();
  const bool unlogged = stream.stash.size() > 0 || (stream.logged != stream.end && !log_arrived(index));
  if (full && !stream.blocked) {
    const std::uint64_t id = stream.id;
    stream.blocked = log_input(input_blocked, &id, sizeof id, nullptr, 0) != 0;
  } else if (!full) {
    stream.blocked = false;
  }
  const bool pause = full || unlogged;
  if (pause != stream.paused) {
    stream.paused = pause;
    if (pause) {
      unwatch(stream.source);  // not merely without EPOLLIN: a hang-up would be told for ever
    } else {
      watch(stream.source, watch_stream, static_cast<std::uint32_t>(index), EPOLLIN);
    }
  }
}

void retry_stashes() {
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    Stream& stream = g.streams[i];
    if (stream.stash.size() > 0) {
      store(stream, nullptr, 0);
    }
    if (stream.logged != stream.end) {
      log_arrived(i);
    }
    if (stream.source < 0 && !stream.eof && stream.pattern == nullptr && g.phase != phase_starting) {
      log_end(i);
    }
    update_reading(i);
  }
}

void force_eof(std::size_t index) {
  if (!g.streams[index].eof) {
    log_end(index);
  }
}

void free_ring(Stream& stream) {
  const std::uint64_t upto = stream.mapped & ~(page - 1);
  // Punching is not free; small commits of a chatty run are gathered.
  if (upto > stream.freed && (upto - stream.freed >= (64u << 10) || stream.mapped == stream.end)) {
    if (fallocate(stream.ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(stream.freed),
                  static_cast<off_t>(upto - stream.freed)) == 0) {
      stream.freed = upto;
    }
  }
}

}  // namespace hitchrail::shim
