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
  // Successors share these open files: each begins to read at the beginning.
  lseek(shim_config, 0, SEEK_SET);
  lseek(shim_adapter, 0, SEEK_SET);
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
  judge_death(status);
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
