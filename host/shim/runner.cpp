// The runner child: start, messages, death, crash accounting, watchdog.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::uint32_t max_frame_payload = 4096;
constexpr std::int64_t watch_every = 250;
constexpr std::int64_t start_limit = 60000;
constexpr std::uint32_t crash_limit = 3;
constexpr std::uint32_t fruitless_exits = 3;   // runners that ended by themselves without reason or commit
constexpr std::uint32_t fruitless_kills = 12;  // runners killed by others without one commit in between

void forget_runner() {
  Runner& r = g.runner;
  if (r.socket >= 0) {
    unwatch(r.socket);
    close_fd(r.socket);
  }
  close_fd(r.pidfd);
  r.pid = 0;
  r.ready = r.done = r.failed = r.watchdog_killed = r.writable_watched = false;
  r.in.clear();
  r.out.clear();
}

// Restart after `wait` ms.
void restart_in(std::int64_t wait) {
  ++g.restarts;
  g.runner_due = monotonic_ms() + wait;
  if (wait == 0) {
    start_runner();
  }
}

void end_attempt(const char* cause, const char* detail) {
  set_cause(cause, detail);
  raise_event(event_cause);
}

// ---- quarantine: the bytes of the input that crashed the adapter three times

std::size_t name_part(char* out, std::size_t at, const char* text, std::uint64_t number) {
  const std::size_t n = strlen(text);
  memcpy(out + at, text, n);
  return at + n + format_number(out + at + n, number);
}

void copy_ring(const Stream& stream, std::uint64_t from, std::uint64_t to, int out) {
  char block[8192];
  while (from < to) {
    const std::uint64_t want = to - from < sizeof block ? to - from : sizeof block;
    const ssize_t n = pread(stream.ring, block, want, static_cast<off_t>(from));
    if (n <= 0 || !write_all(out, block, static_cast<std::size_t>(n))) {
      return;
    }
    from += static_cast<std::uint64_t>(n);
  }
}

void quarantine(std::uint32_t stream_id, std::uint64_t offset, std::uint64_t size, std::uint64_t input) {
  char name[80] = {};
  if (input != 0) {
    name_part(name, 0, "input-", input);
  } else if (stream_id != 0) {
    name_part(name, name_part(name, 0, "stream-", stream_id), "-offset-", offset);
  } else {
    name_part(name, 0, "snapshot-", g.applied);
  }
  if (mkdirat(shim_attempt, "quarantine", 0700) != 0 && errno != EEXIST) {
    return;  // a full disk: the cause is recorded all the same
  }
  const int dir = openat(shim_attempt, "quarantine", O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
  const int out =
      dir < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (out >= 0) {
    if (input != 0) {
      for (std::uint64_t i = g.log.head; i < g.log.tail; ++i) {
        const Entry& entry = g.log.at(i);
        if (entry.kind == EntryKind::input && entry.a == input) {
          write_all(out, entry.payload, entry.payload_size);
        }
      }
    } else if (stream_id != 0) {
      for (std::uint32_t i = 0; i < g.stream_count; ++i) {
        const Stream& stream = g.streams[i];
        if (stream.id == stream_id && offset >= stream.mapped && offset < stream.end) {
          copy_ring(stream, offset, size < stream.end - offset ? offset + size : stream.end, out);
        }
      }
    } else {
      Slot slot{};
      if (read_slot(g.state, g.applied, slot)) {
        write_all(out, slot_snapshot_bytes(g.state, g.applied), slot.snapshot_size);
      }
    }
    fsync(out);
    close(out);
  }
  if (dir >= 0) {
    close(dir);
  }
}

// Counts a crash against the input that was being handled; true when it was the third.
bool count_crash(std::uint32_t& hook) {
  const Current& now = g.state->current;
  hook = now.busy.load(std::memory_order_acquire);
  const bool busy = hook != hook_none;
  const CrashCount key{busy && now.stream == 0 && now.input == 0 ? hook : 0, busy ? now.stream : 0,
                       busy ? now.offset : 0, busy ? now.input : 0, 0};
  CrashCount* found = nullptr;
  for (CrashCount& crash : g.crashes) {
    if (crash.count > 0 && crash.kind == key.kind && crash.stream == key.stream &&
        crash.offset == key.offset && crash.input == key.input) {
      found = &crash;
    }
  }
  if (found == nullptr) {
    found = &g.crashes[g.crash_next++ % (sizeof g.crashes / sizeof g.crashes[0])];
    *found = key;
  }
  if (++found->count < crash_limit) {
    return false;
  }
  if (busy) {
    quarantine(now.stream, now.offset, now.size, now.input);
  }
  return true;
}

bool counts_as_crash(int status) {
  if (g.runner.watchdog_killed) {
    return true;
  }
  if (!WIFSIGNALED(status)) {
    return false;
  }
  const int signal = WTERMSIG(status);
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGABRT;
}

void crashed(int status) {
  std::uint32_t hook = 0;
  if (!count_crash(hook)) {
    restart_in(0);
    return;
  }
  char detail[120] = "hook ";
  std::size_t at = name_part(detail, 0, "hook ", hook);
  const Current& now = g.state->current;
  if (hook != hook_none) {
    at = name_part(detail, at, " stream ", now.stream);
    at = name_part(detail, at, " offset ", now.offset);
    at = name_part(detail, at, " input ", now.input);
  }
  if (g.runner.watchdog_killed) {
    memcpy(detail + at, " watchdog", 10);
  } else {
    name_part(detail, at, " signal ", static_cast<std::uint64_t>(WTERMSIG(status)));
  }
  end_attempt(hook == hook_none ? "runner-crashed" : "adapter-crashed", detail);
}

void journal_failed() {
  const std::int64_t now = monotonic_ms();
  // While the harness runs the disk may be mended at any time. Once the run is asked to end, or has, somebody
  // waits.
  if (g.stop_reason != stop_none || g.leader_known) {
    if (g.journal_deadline == 0) {
      g.journal_deadline = now + 60000;
    } else if (now >= g.journal_deadline) {
      end_attempt("journal-failed", g.runner.failure_text);
      return;
    }
  }
  g.journal_wait = g.journal_wait == 0 ? 100 : g.journal_wait * 2;
  g.journal_wait = g.journal_wait > 2000 ? 2000 : g.journal_wait;
  restart_in(g.journal_wait);
}

void ended_by_itself(int status) {
  ++g.fruitless;
  const bool killed = WIFSIGNALED(status);
  if (g.fruitless >= (killed ? fruitless_kills : fruitless_exits)) {
    char detail[64] = {};
    name_part(detail, 0, killed ? "signal " : "exit ",
              static_cast<std::uint64_t>(killed ? WTERMSIG(status) : WEXITSTATUS(status)));
    end_attempt(killed ? "runner-killed" : "runner-failed", g.runner.failed ? g.runner.failure_text : detail);
    return;
  }
  std::int64_t wait = 0;
  if (g.fruitless > 1) {
    wait = 20ll << (g.fruitless > 8 ? 7 : g.fruitless - 2);
    wait = wait > 2000 ? 2000 : wait;
  }
  restart_in(wait);
}

void take_failure(const Frame& frame, const unsigned char* payload) {
  Runner& r = g.runner;
  r.failed = true;
  r.failure = frame.a;
  // "code\0detail" becomes "code: detail".
  std::size_t used = 0;
  for (std::uint32_t i = 0; i < frame.size && used + 3 < sizeof r.failure_text; ++i) {
    const char c = static_cast<char>(payload[i]);
    if (c == 0 && i + 1 < frame.size) {
      r.failure_text[used++] = ':';
      r.failure_text[used++] = ' ';
    } else if (c != 0) {
      r.failure_text[used++] = c;
    }
  }
  r.failure_text[used] = 0;
}

// One frame of the runner; false: it does not speak our language.
bool take_frame(const Frame& frame, const unsigned char* payload) {
  switch (frame.type) {
    case frame_ready:
      g.runner.ready = true;
      return true;
    case frame_commit:
      return frame.a <= g.state->published.load(std::memory_order_acquire) && apply_published();
    case frame_done:
      g.runner.done = apply_published() && g.session_state == 2;
      return g.runner.done;
    case frame_failed:
      take_failure(frame, payload);
      return true;
    default:
      return false;
  }
}

void read_frames() {
  Runner& r = g.runner;
  unsigned char block[8192];
  for (;;) {
    const ssize_t n = recv(r.socket, block, sizeof block, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      if (n == 0 || errno != EAGAIN) {
        unwatch(r.socket);  // its death is told by SIGCHLD
      }
      return;
    }
    bool good = r.in.append(block, static_cast<std::size_t>(n));
    while (good && r.in.size() >= sizeof(Frame)) {
      Frame frame{};
      memcpy(&frame, r.in.data(), sizeof frame);
      if (frame.size > max_frame_payload) {
        good = false;
      } else if (r.in.size() < sizeof frame + frame.size) {
        break;
      } else {
        good = take_frame(frame, r.in.data() + sizeof frame);
        r.in.consume(sizeof frame + frame.size);
      }
    }
    if (!good) {
      unwatch(r.socket);
      kill_runner();
      return;
    }
  }
}

bool flush_runner() {
  Runner& r = g.runner;
  while (r.out.size() > 0) {
    const ssize_t n = send(r.socket, r.out.data(), r.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      if (errno == EAGAIN && !r.writable_watched) {
        r.writable_watched = watch(r.socket, watch_runner, 0, EPOLLIN | EPOLLOUT);
      }
      return false;
    }
    r.out.consume(static_cast<std::size_t>(n));
  }
  if (r.writable_watched) {
    watch(r.socket, watch_runner, 0, EPOLLIN);
    r.writable_watched = false;
  }
  return true;
}

void encode(const Entry& entry) {
  Frame frame{};
  frame.unix_ms = entry.at_ms;
  frame.a = entry.a;
  frame.b = entry.b;
  frame.size = entry.payload_size;
  if (entry.kind == EntryKind::input) {
    frame.type = frame_input;
  } else {
    const std::uint64_t id = g.streams[entry.stream].id;
    frame.type = entry.kind == EntryKind::arrived ? frame_arrived : frame_eof;
    frame.a = entry.kind == EntryKind::arrived ? id : id | entry.b << 32;
    frame.b = entry.a;
  }
  if (!g.runner.out.append(&frame, sizeof frame) || !g.runner.out.append(entry.payload, entry.payload_size)) {
    kill_runner();  // half a frame must not be sent; its successor gets all again
  }
}

void wake_watchdog() {
  g.runner.quiet_ticks = 0;
  if (g.runner.seen_at == 0) {
    g.runner.seen_at = monotonic_ms();
  }
}

}  // namespace

void want_runner() {
  g.runner_wanted = true;
  start_runner();
}

void start_runner() {
  g.runner_due = 0;
  // What is published is applied before a successor looks at it.
  if (!apply_published()) {
    g.state->published.store(g.applied, std::memory_order_release);
  }
  if (g.apply_held) {
    g.runner_due =
        monotonic_ms() + 20;  // its outbox waits for the harness; a successor must not overwrite it
    return;
  }
  int ends[2];
  const int secrets = secrets_pipe();
  if (secrets < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    if (secrets >= 0) {
      close(secrets);
    }
    g.runner_due = monotonic_ms() + 500;
    return;
  }
  // A small buffer: while the runner is busy, arrivals are joined instead of waking it for each.
  const int small = 4096;
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  g.state->restarts = g.restarts;
  g.state->current.count = 0;
  FdMap map[6 + max_streams] = {{ends[1], runner_socket},       {g.state_fd, runner_state},
                                {shim_attempt, runner_attempt}, {shim_adapter, runner_adapter},
                                {shim_config, runner_config},   {secrets, runner_secrets}};
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    map[6 + i] = {g.streams[i].ring_reader, static_cast<int>(runner_rings + i)};
  }
  const char* const argv[] = {"hitchrail-runner", "--run", nullptr};
  const char* const environment[] = {nullptr};
  const int pid = start_child({shim_runner, argv, environment, map, 6 + g.stream_count, true});
  close(ends[1]);
  close(secrets);
  if (pid < 0) {
    close(ends[0]);
    g.runner_due = monotonic_ms() + 500;
    return;
  }
  forget_runner();
  Runner& r = g.runner;
  r.pid = pid;
  r.pidfd = open_pidfd(pid);
  r.socket = ends[0];
  r.started = monotonic_ms();
  r.seen_count = 0;
  r.seen_cpu_ns = 0;
  r.seen_at = r.started;
  r.quiet_ticks = 0;
  r.applied_pending = true;
  r.failure_text[0] = 0;
  g.log.cursor = g.log.head;
  watch(r.socket, watch_runner, 0, EPOLLIN);
  send_log();
}

void kill_runner() {
  if (g.runner.pid != 0) {
    signal_pidfd(g.runner.pidfd, SIGKILL);
  }
}

void runner_readable() {
  read_frames();
  wake_watchdog();
  send_log();
}

void send_log() {
  Runner& r = g.runner;
  if (r.pid == 0 || r.socket < 0 || !flush_runner()) {
    return;
  }
  Log& log = g.log;
  const std::uint64_t used = log.tail - log.head;
  if (used > log_limit / 4 && monotonic_ms() < g.next_send) {
    return;  // crowded: fewer, longer arrivals
  }
  bool sent = false;
  while (r.out.size() == 0 && (r.applied_pending || log.cursor < log.tail)) {
    if (r.applied_pending) {
      Frame frame{};
      frame.type = frame_applied;
      frame.a = g.applied;
      frame.unix_ms = unix_ms();
      r.applied_pending = false;
      r.out.append(&frame, sizeof frame);
    } else {
      const Entry& entry = log.at(log.cursor++);
      log.sent = log.sent > log.cursor ? log.sent : log.cursor;
      if (!covered(entry)) {
        encode(entry);
      }
    }
    sent = true;
    if (!flush_runner()) {
      break;
    }
  }
  if (sent) {
    wake_watchdog();
    g.next_send = monotonic_ms() + (used > log_limit / 2 ? 200 : 10);
  }
}

void runner_died(int status) {
  Runner& r = g.runner;
  if (r.socket >= 0) {
    read_frames();  // what it said last may still lie in the socket
  }
  const bool damaged = !apply_published();
  if (damaged) {
    g.state->published.store(g.applied, std::memory_order_release);
  }
  const bool done = r.done || g.session_state == 2;
  r.pid = 0;
  if (done || !g.runner_wanted) {
    forget_runner();
    g.runner_wanted = false;
    raise_event(event_runner_done);
    return;
  }
  if (r.failed && r.failure == runner_journal_failed) {
    journal_failed();
  } else if (r.failed && r.failure != runner_internal) {
    const char* cause = r.failure == runner_hook_failed       ? "adapter-failed"
                        : r.failure == runner_load_failed     ? "adapter-load-failed"
                        : r.failure == runner_journal_full    ? "journal-full"
                        : r.failure == runner_record_too_long ? "record-too-long"
                                                              : "runner-failed";
    end_attempt(cause, r.failure_text);
  } else if (counts_as_crash(status)) {
    crashed(status);
  } else {
    ended_by_itself(status);
  }
  if (g.runner.pid == 0) {
    forget_runner();
  }
}

// Runs only while the runner has something to do. A hook's budget counts from the first look that saw it, so
// it is exceeded by at most one look.
std::int64_t watchdog(std::int64_t now) {
  Runner& r = g.runner;
  if (r.pid == 0 || r.seen_at == 0) {
    return 0;
  }
  if (now < r.seen_at) {
    return r.seen_at;
  }
  const Current& current = g.state->current;
  const bool busy = current.busy.load(std::memory_order_acquire) != hook_none;
  const std::uint64_t count = __atomic_load_n(&current.count, __ATOMIC_RELAXED);
  clockid_t clock{};
  timespec used{};
  std::uint64_t cpu = 0;
  if (clock_getcpuclockid(r.pid, &clock) == 0 && clock_gettime(clock, &used) == 0) {
    cpu = static_cast<std::uint64_t>(used.tv_sec) * 1000000000u + static_cast<std::uint64_t>(used.tv_nsec);
  }
  if (!busy || count != r.seen_count || r.seen_cpu_ns == 0) {
    r.quiet_ticks = busy || count != r.seen_count || !r.ready ? 0 : r.quiet_ticks + 1;
    r.seen_count = count;
    r.seen_cpu_ns = cpu == 0 ? 1 : cpu;
    r.hook_since = now;
    if (!r.ready && now - r.started > start_limit) {
      kill_runner();
    }
  } else {
    const std::uint64_t cpu_limit = g.limits.hook_cpu_ms == 0 ? 5000 : g.limits.hook_cpu_ms;
    const std::uint64_t wall_limit = g.limits.hook_wall_ms == 0 ? 30000 : g.limits.hook_wall_ms;
    if ((cpu - r.seen_cpu_ns) / 1000000 > cpu_limit ||
        static_cast<std::uint64_t>(now - r.hook_since) > wall_limit) {
      r.watchdog_killed = signal_pidfd(r.pidfd, SIGKILL);
    }
  }
  if (r.quiet_ticks >= 4 && g.log.cursor == g.log.tail) {
    r.seen_at = 0;  // idle: no more looks until something is sent or said
    return 0;
  }
  r.seen_at = now + watch_every;
  return r.seen_at;
}

}  // namespace hitchrail::shim
