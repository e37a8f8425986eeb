// The state area and what a commit asks for: the harness's input, signals, timers, freed rings.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

bool signal_allowed(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2;
}

// The runner shares its address space with an adapter: what it publishes is checked like a stranger's.
bool slot_plausible(const Slot& slot) {
  if (slot.last_input > g.last_input || slot.last_input < g.covered_input ||
      slot.outbox_offset != g.outbox_next || slot.session_state > 2) {
    return false;
  }
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    const StreamPosition& position = slot.streams[i];
    const Stream& stream = g.streams[i];
    if (position.mapped > stream.end || position.mapped < stream.mapped ||
        (position.ended != 0 && !stream.eof)) {
      return false;
    }
  }
  return true;
}

void apply_timers(const Slot& slot, std::int64_t now) {
  for (AdapterTimer& timer : g.timers) {
    bool armed = false;
    for (const Timer& wanted : slot.timers) {
      armed = armed || (wanted.armed != 0 && wanted.id == timer.id && wanted.action == timer.action);
    }
    timer.live = timer.live && armed;
  }
  for (const Timer& wanted : slot.timers) {
    if (wanted.armed == 0 || wanted.action <= g.applied_action) {
      continue;
    }
    for (AdapterTimer& timer : g.timers) {
      if (!timer.live) {
        const std::uint64_t after = wanted.after_ms > UINT32_MAX ? UINT32_MAX : wanted.after_ms;
        timer = AdapterTimer{wanted.id, true, wanted.action, now + static_cast<std::int64_t>(after)};
        break;
      }
    }
  }
  g.applied_action = slot.action > g.applied_action ? slot.action : g.applied_action;
}

void apply_slot(const Slot& slot) {
  if (slot.outbox_size > 0) {
    send_parts(static_cast<const unsigned char*>(slot_outbox_bytes(g.state, slot.generation)),
               slot.outbox_size);
    g.outbox_next += slot.outbox_size;
  }
  if (slot.close_input != 0) {
    close_stdin_after_queue();
  }
  for (std::uint32_t i = 0; i < slot.signal_count; ++i) {
    if (signal_allowed(slot.signals[i]) && !g.leader_known) {
      signal_pidfd(g.leader_pidfd, slot.signals[i]);
    }
  }
  apply_timers(slot, monotonic_ms());
  bool advanced = slot.last_input != g.covered_input || slot.session_state != g.session_state;
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    Stream& stream = g.streams[i];
    advanced =
        advanced || stream.mapped != slot.streams[i].mapped || stream.processed != slot.streams[i].ended;
    stream.mapped = slot.streams[i].mapped;
    stream.processed = slot.streams[i].ended;
    free_ring(stream);
  }
  g.covered_input = slot.last_input;
  g.session_state = slot.session_state;
  g.applied = slot.generation;
  g.state->applied.store(slot.generation, std::memory_order_release);
  g.runner.applied_pending = true;
  if (advanced) {  // a commit that covers nothing new is no progress: its runner may die for ever at one
                   // place
    g.fruitless = 0;
    g.journal_wait = 0;
  }
  drop_covered();
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    update_reading(i);
  }
  if (slot.end_run != 0 && g.stop_reason == stop_none) {
    g.stop_reason = stop_end_run;
    raise_event(event_stop);
  }
}

std::size_t encode_json(const unsigned char* in, std::uint32_t size, unsigned char* out) {
  static const char hex[] = "0123456789abcdef";
  std::size_t used = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    const unsigned char c = in[i];
    if (c == '"' || c == '\\') {
      out[used++] = '\\';
      out[used++] = c;
    } else if (c < 0x20) {
      memcpy(out + used, "\\u00", 4);
      out[used + 4] = static_cast<unsigned char>(hex[c >> 4]);
      out[used + 5] = static_cast<unsigned char>(hex[c & 15]);
      used += 6;
    } else {
      out[used++] = c;
    }
  }
  return used;
}

std::size_t encode_base64(const unsigned char* in, std::uint32_t size, unsigned char* out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t used = 0;
  for (std::uint32_t i = 0; i < size; i += 3) {
    const std::uint32_t left = size - i;
    const std::uint32_t word = (static_cast<std::uint32_t>(in[i]) << 16) |
                               (left > 1 ? static_cast<std::uint32_t>(in[i + 1]) << 8 : 0) |
                               (left > 2 ? static_cast<std::uint32_t>(in[i + 2]) : 0);
    out[used++] = static_cast<unsigned char>(digits[word >> 18]);
    out[used++] = static_cast<unsigned char>(digits[(word >> 12) & 63]);
    out[used++] = static_cast<unsigned char>(left > 1 ? digits[(word >> 6) & 63] : '=');
    out[used++] = static_cast<unsigned char>(left > 2 ? digits[word & 63] : '=');
  }
  return used;
}

constexpr std::uint32_t encode_as_json = 1;    // HR_ENCODE_JSON_STRING
constexpr std::uint32_t encode_as_base64 = 2;  // HR_ENCODE_BASE64

// Encodes the secret into the locked scratch behind the list; only there it ever exists in clear besides the
// list.
bool fill_secret(const OutboxPart& part, const unsigned char* name) {
  const unsigned char* value = nullptr;
  std::uint32_t size = 0;
  if (!find_secret(name, part.size, value, size)) {
    return false;
  }
  unsigned char* scratch = g.secrets + g.secrets_size;
  std::size_t encoded = size;
  if (part.encoding == encode_as_json) {
    encoded = encode_json(value, size, scratch);
  } else if (part.encoding == encode_as_base64) {
    encoded = encode_base64(value, size, scratch);
  } else {
    memcpy(scratch, value, size);
  }
  g.scratch_size = static_cast<std::uint32_t>(encoded);
  return true;
}

void drop_stdin() {
  if (g.stdin_fd >= 0) {
    if (g.stdin_watched) {
      unwatch(g.stdin_fd);
      g.stdin_watched = false;
    }
    close_fd(g.stdin_fd);
  }
  g.stdin_queue.clear();
  g.part_done = 0;
  if (g.scratch_size > 0) {
    explicit_bzero(g.secrets + g.secrets_size, g.scratch_size);
    g.scratch_size = 0;
  }
}

// What is to be written next of the part at the head of the queue; false when a secret is unknown.
bool head_bytes(const OutboxPart& part, const unsigned char*& bytes, std::uint32_t& size) {
  const unsigned char* body = g.stdin_queue.data() + sizeof part;
  if (part.kind == part_bytes) {
    bytes = body;
    size = part.size;
    return true;
  }
  if (g.part_done == 0 && !fill_secret(part, body)) {
    return false;
  }
  bytes = g.secrets + g.secrets_size;
  size = g.scratch_size;
  return true;
}

}  // namespace

bool make_state() {
  g.state_fd = memfd_create("hitchrail-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (g.state_fd < 0 || ftruncate(g.state_fd, static_cast<off_t>(state_size)) != 0) {
    fail_start("state-area", errno, "memfd");
    return false;
  }
  void* map = mmap(nullptr, state_size, PROT_READ | PROT_WRITE, MAP_SHARED, g.state_fd, 0);
  if (map == MAP_FAILED) {
    fail_start("state-area", errno, "mmap");
    return false;
  }
  g.state = new (map) SharedState{};
  g.state->magic = state_magic;
  g.state->version = state_version;
  g.state->stream_count = g.stream_count;
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    g.state->streams[i] = g.streams[i].id;
  }
  g.state->slot_offset[0] = slot_offset(0);
  g.state->slot_offset[1] = slot_offset(1);
  Slot first{};
  first.close_input = (g.flags & flag_close_input) != 0 ? 1 : 0;
  if (!publish_slot(g.state, first, g.initial_outbox, g.initial_outbox_size, g.snapshot, g.snapshot_size)) {
    fail_start("state-area", EINVAL, "first slot");
    return false;
  }
  // The area's size is fixed: a runner cannot cut it below the shim.
  if (fcntl(g.state_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    return true;
  }
  fail_start("state-area", errno, "seal");
  return false;
}

bool apply_published() {
  g.apply_held = false;
  const std::uint64_t published = g.state->published.load(std::memory_order_acquire);
  if (published < g.applied || published > g.applied + 2) {
    return false;
  }
  while (g.applied < published) {
    Slot slot{};
    if (!read_slot(g.state, g.applied + 1, slot) || !slot_plausible(slot)) {
      return false;
    }
    if (g.stdin_fd >= 0 && g.stdin_queue.size() >= held_outbox) {
      g.apply_held = true;
      return true;
    }
    apply_slot(slot);
  }
  return true;
}

void send_parts(const unsigned char* parts, std::uint32_t size) {
  if (g.stdin_fd < 0 || g.stdin_close) {
    return;  // after the end of input there is nobody to read it
  }
  if (!g.stdin_queue.append(parts, size)) {
    set_cause("shim-memory", "no memory for the harness's input");
    raise_event(event_cause);
    return;
  }
  pump_stdin();
}

void close_stdin_after_queue() {
  g.stdin_close = true;
  pump_stdin();
}

void pump_stdin() {
  while (g.stdin_fd >= 0 && g.stdin_queue.size() > 0) {
    OutboxPart part{};
    memcpy(&part, g.stdin_queue.data(), sizeof part);
    const unsigned char* bytes = nullptr;
    std::uint32_t size = 0;
    if (!head_bytes(part, bytes, size)) {
      drop_stdin();
      set_cause("secret-unknown", "the adapter named a secret that the launch does not have");
      raise_event(event_cause);
      return;
    }
    if (g.part_done < size) {
      const ssize_t n = write(g.stdin_fd, bytes + g.part_done, size - g.part_done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0 && errno == EAGAIN) {
        if (!g.stdin_watched) {
          g.stdin_watched = watch(g.stdin_fd, watch_stdin, 0, EPOLLOUT);
        }
        return;
      }
      if (n < 0) {
        drop_stdin();  // the harness closed its input: what is left has no reader
        return;
      }
      g.part_done += static_cast<std::uint32_t>(n);
    }
    if (g.part_done == size) {
      if (g.scratch_size > 0) {
        explicit_bzero(g.secrets + g.secrets_size, g.scratch_size);
        g.scratch_size = 0;
      }
      g.part_done = 0;
      g.stdin_queue.consume(sizeof part + part.size);
    }
  }
  if (g.stdin_watched && g.stdin_fd >= 0) {
    unwatch(g.stdin_fd);
    g.stdin_watched = false;
  }
  if (g.stdin_close) {
    drop_stdin();
  }
}

void fire_timers(std::int64_t now) {
  for (AdapterTimer& timer : g.timers) {
    if (timer.live && timer.due <= now && !g.leader_known) {
      const TimerInput input{timer.id, 0, timer.action};
      timer.live = log_input(input_timer, &input, sizeof input, nullptr, 0) == 0;
    }
  }
}

std::int64_t timers_due() {
  std::int64_t due = 0;
  for (const AdapterTimer& timer : g.timers) {
    if (timer.live && !g.leader_known && (due == 0 || timer.due < due)) {
      due = timer.due;
    }
  }
  return due;
}

}  // namespace hitchrail::shim
