// The table: what each event does in each phase. An action is short, sets the next phase, and has the exit
// slot written first.

#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::uint32_t finish_limit = 3;
constexpr std::int64_t memory_grace = 20000;  // after the tree's end, for bytes that could not be stored

void nothing() {}

// ---- the end

void finish_run() {
  g.slot.state = exit_ended;
  write_exit_slot();
  g.phase = phase_finishing;
  g.runner_wanted = false;
  start_finisher();
}

// The attempt was given up: when nobody of it lives any more, the finisher says so.
void end_abandoned() {
  if (g.tree_empty && g.runner.pid == 0) {
    finish_run();
  }
}

void abandon() {
  g.abandoned = true;
  g.runner_wanted = false;
  g.runner_due = 0;
  if (g.stop_reason == stop_none && !g.leader_known) {
    g.stop_reason = stop_cause;
  }
  kill_runner();
}

// ---- starting

void begin_running() {
  g.phase = phase_running;
  g.started_ms = unix_ms();
  if (g.limits.run_wall_ms != 0) {
    g.wall_due = monotonic_ms() + static_cast<std::int64_t>(g.limits.run_wall_ms);
  }
  report_start(start_ok, "", 0, "");
  want_runner();
}

void abort_start() {
  const InitMessage& failure = g.init_failure;
  char detail[200];
  const std::size_t step = strlen(failure.step);
  memcpy(detail, failure.step, step);
  memcpy(detail + step, ": ", 3);
  set_text_from(detail + step + 2, sizeof detail - step - 2, failure.detail);
  set_cause("start-failed", detail);
  g.abandoned = true;
  g.phase = phase_draining;
  report_start(start_failed, failure.step, failure.error_number, failure.detail);
  begin_tree_end();
}

void stop_start() {
  g.init_failure.type = init_failed;
  set_text(g.init_failure.step, "stopped");
  set_text(g.init_failure.detail, "the run was stopped before the harness started");
  signal_pidfd(g.init_pidfd, SIGKILL);
  abort_start();
}

// ---- running, stopping

void begin_stop() {
  g.phase = phase_stopping;
  write_exit_slot();
  run_stop_step();
}

void next_step() {
  run_stop_step();
}

void kill_now() {
  g.phase = phase_stopping;
  g.step_due = 0;
  g.next_step = g.stop_count;
  write_exit_slot();
  kill_harness();
}

void time_out() {
  g.stop_reason = stop_timeout;
  set_cause("run-timeout", "the run was longer than its limit");
  begin_stop();
}

void abandon_running() {
  abandon();
  kill_now();
}

void runner_left() {
  if (!g.abandoned) {
    set_cause("runner-failed", "the runner left before the end");
    abandon_running();
  }
}

// ---- draining, ending

void after_drain() {
  if (g.abandoned) {
    end_abandoned();
    return;
  }
  if (!g.tree_empty || !gate_settled() || !g.streams[stream_stdout].eof || !g.streams[stream_stderr].eof) {
    return;
  }
  g.phase = phase_ending;
  const ExitInput exited{g.slot.kind, g.slot.value, g.stop_reason, 0};
  bool logged = log_input(input_exit, &exited, sizeof exited, nullptr, 0) != 0;
  for (std::uint32_t i = 0; i < g.stream_count && logged; ++i) {
    logged = g.streams[i].pattern == nullptr || copy_file_stream(i);
  }
  if (!logged || log_input(input_end, nullptr, 0, nullptr, 0) == 0) {
    set_cause("shim-memory", "no memory for the last inputs");
    raise_event(event_cause);
  }
}

void begin_draining() {
  g.phase = phase_draining;
  g.step_due = g.wall_due = 0;
  begin_tree_end();
  after_drain();
}

void give_up() {
  abandon();
  after_drain();
}

void give_up_ending() {
  abandon();
  end_abandoned();
}

// The harness is gone: a stop is about the verification gates now. One that dies of the signal before it
// listens is started again and told by its argument.
void stop_gates() {
  g.gates_stopped = true;
  if (g.finish_pid > 0) {
    kill(g.finish_pid, SIGTERM);  // ours and not reaped: nobody else has its number
  }
}

void all_done() {
  g.phase = phase_done;
}

using Action = void (*)();
constexpr std::uint32_t phase_count = phase_done + 1;

// clang-format off
constexpr Action table[phase_count][event_count] = {
  //               execed         start_failed  leader_exited   stop        kill        step_due   wall      cause            tree_empty    drained      runner_done    finish_exited
  /* starting  */ {begin_running, abort_start,  nothing,        stop_start, stop_start, nothing,   nothing,  nothing,         nothing,      nothing,     nothing,       nothing},
  /* running   */ {nothing,       nothing,      begin_draining, begin_stop, kill_now,   nothing,   time_out, abandon_running, nothing,      nothing,     runner_left,   nothing},
  /* stopping  */ {nothing,       nothing,      begin_draining, nothing,    kill_now,   next_step, nothing,  abandon_running, nothing,      nothing,     runner_left,   nothing},
  /* draining  */ {nothing,       nothing,      nothing,        nothing,    nothing,    nothing,   nothing,  give_up,         after_drain,  after_drain, after_drain,   nothing},
  /* ending    */ {nothing,       nothing,      nothing,        nothing,    nothing,    nothing,   nothing,  give_up_ending,  nothing,      nothing,     finish_run,    nothing},
  /* finishing */ {nothing,       nothing,      nothing,        stop_gates, stop_gates,  nothing,   nothing,  nothing,         nothing,      nothing,     nothing,       all_done},
  /* done      */ {nothing,       nothing,      nothing,        nothing,    nothing,    nothing,   nothing,  nothing,         nothing,      nothing,     nothing,       nothing},
};
// clang-format on

}  // namespace

void raise_event(Event event) {
  table[g.phase][event]();
}

void report_start(StartOutcome outcome, const char* step, int error_number, const char* detail) {
  StartReport report{};
  report.outcome = outcome;
  report.error_number = error_number;
  report.shim_pid = getpid();
  report.init_pid = g.init_pid;
  report.leader_pid = g.leader_pid;
  set_text(report.step, step);
  set_text(report.detail, detail);
  write_all(shim_report, &report,
            sizeof report);  // the host may be gone: SIGPIPE is ignored, the run goes on
  close(shim_report);
}

void start_finisher() {
  g.finish_due = 0;
  // Known secrets may stand in file names and commit subjects: its evidence is redacted like the stream.
  // Without them it runs as well.
  const int secrets = secrets_pipe();
  const FdMap map[] = {{shim_attempt, finish_attempt}, {secrets, finish_secrets}};
  const char* const argv[] = {"hitchrail-finish", g.gates_stopped ? "--no-gates" : nullptr, nullptr};
  const int pid =
      start_child({shim_finish, argv, environ, map, secrets >= 0 ? std::size_t{2} : std::size_t{1}, false});
  if (secrets >= 0) {
    close(secrets);
  }
  ++g.finish_starts;
  if (pid > 0) {
    g.finish_pid = pid;
  } else if (g.finish_starts < finish_limit) {
    g.finish_due = monotonic_ms() + 500;
  } else {
    raise_event(event_finish_exited);
  }
}

// A finisher that was killed, or that could not finish (a full disk), is started again a few times: it is
// idempotent. After that any later host completes the run.
void finisher_died(int status) {
  g.finish_pid = 0;
  const bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!finished && g.finish_starts <= finish_limit) {
    g.finish_due = monotonic_ms() + ((WIFSIGNALED(status) ? 10ll : 500ll) << g.finish_starts);
    return;
  }
  raise_event(event_finish_exited);
}

std::int64_t phase_due() {
  std::int64_t due = 0;
  const auto take = [&due](std::int64_t when) { due = when != 0 && (due == 0 || when < due) ? when : due; };
  take(g.step_due);
  take(g.wall_due);
  take(g.finish_due);
  take(g.runner_due);
  if (g.phase == phase_draining && g.tree_empty) {
    take(g.drain_deadline);
  }
  return due;
}

void phase_tick(std::int64_t now) {
  if (g.step_due != 0 && now >= g.step_due) {
    g.step_due = 0;
    raise_event(event_step_due);
  }
  if (g.wall_due != 0 && now >= g.wall_due) {
    g.wall_due = 0;
    raise_event(event_wall);
  }
  if (g.finish_due != 0 && now >= g.finish_due) {
    start_finisher();
  }
  if (g.runner_due != 0 && now >= g.runner_due) {
    g.runner_due = 0;
    if (g.runner_wanted && g.runner.pid == 0) {
      start_runner();
    }
  }
  if (g.phase == phase_draining && g.tree_empty && g.drain_deadline != 0 && now >= g.drain_deadline) {
    g.drain_deadline = now + 50;
    if (now > g.tree_deadline + memory_grace &&
        g.streams[stream_stdout].stash.size() + g.streams[stream_stderr].stash.size() > 0) {
      set_cause("shim-memory", "no memory for the harness's last bytes");
      raise_event(event_cause);
      return;
    }
    for (std::size_t i = stream_stdout; i <= stream_stderr; ++i) {
      // Somebody outside the tree holds it: what is there was read, more does not belong to this run.
      if (!g.streams[i].paused && g.streams[i].source >= 0) {
        read_stream(i);
        force_eof(i);
      }
    }
  }
}

}  // namespace hitchrail::shim
