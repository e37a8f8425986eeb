// What a runner's death means: crash accounting per input, quarantine, backoff, causes.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::uint32_t crash_limit = 3;
constexpr std::uint32_t fruitless_exits = 3;   // runners that ended by themselves without reason or commit
constexpr std::uint32_t fruitless_kills = 12;  // runners killed by others without one commit in between

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

}  // namespace

void judge_death(int status) {
  const Runner& r = g.runner;
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
}

}  // namespace hitchrail::shim
