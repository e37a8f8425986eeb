// What state an attempt is in. Read in this order; the first line that applies decides.
//
//   completion.json | token | exit slot        | shim   | somebody at work (1) | state
//   ----------------+-------+------------------+--------+----------------------+---------------------------------
//   there           | gone  | any              | any    | any                  | completed, failed or
//   interrupted there           | there | any              | any    | yes                  | finishing there
//   | there | any              | any    | no                   | needs-recovery: finish-incomplete absent |
//   any   | absent, damaged  | any    | any                  | needs-recovery: exit-slot-damaged absent | any
//   | prepared         | alive  | any                  | starting absent          | any   | prepared | none
//   | lock held            | starting absent          | any   | prepared         | none   | no |
//   needs-recovery: launcher-gone absent          | any   | running          | alive  | any | running,
//   stopping when a stop was asked for absent          | any   | exited, ended    | alive  | any | finishing
//   absent          | any   | running … ended  | dead   | yes                  | finishing
//   absent          | any   | ended            | dead   | no                   | needs-recovery:
//   finish-incomplete absent          | any   | running, exited  | dead   | no                   |
//   needs-recovery: supervisor-gone
//
// (1) the attempt's lock is held (launcher, recovery), the shim lives, or a writer of the journal does.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempt/attempt.hpp"
#include "attempt/derive.hpp"
#include "attempt/exit_slot.hpp"
#include "attempt/identity.hpp"
#include "attempt/names.hpp"
#include "core/file.hpp"
#include "journal/reader.hpp"

namespace hitchrail::attempt {
namespace {

struct Seen {
  std::optional<json::Value> completion;
  bool token = false;
  Result<wire::ExitSlot> slot = wire::ExitSlot{};
  bool shim_alive = false;
  bool at_work = false;
};

bool exists(int dirfd, const char* name) {
  struct stat info {};
  return ::fstatat(dirfd, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

Seen look(const Directory& directory, bool own_lock) {
  Seen seen;
  auto done = completion(directory);
  seen.completion = done.has_value() ? std::optional<json::Value>(std::move(done).value()) : std::nullopt;
  seen.token = exists(directory.fd(), token_name);
  seen.slot = read_exit_slot(directory.fd());
  seen.shim_alive = seen.slot.has_value() && liveness(shim_identity(seen.slot.value())) == Liveness::alive;
  seen.at_work = (!own_lock && directory.locked()) || seen.shim_alive || journal::has_writer(directory.fd());
  return seen;
}

void decide(const Seen& seen, AttemptStatus& out) {
  const auto needs = [&out](const char* why) {
    out.state = State::needs_recovery;
    out.code = why;
  };
  if (seen.completion) {
    const json::Value& done = *seen.completion;
    out.status = done.get("status").as_string();
    out.summary = done.get("summary").as_string();
    if (seen.token) {
      seen.at_work ? void(out.state = State::finishing) : needs("finish-incomplete");
      return;
    }
    out.code = done.get("code").as_string();
    out.state = out.status == "success"       ? State::completed
                : out.status == "interrupted" ? State::interrupted
                                              : State::failed;
    return;
  }
  if (seen.slot.has_error()) {
    needs("exit-slot-damaged");
    return;
  }
  const wire::ExitSlot& slot = seen.slot.value();
  if (slot.state == wire::exit_prepared) {
    seen.at_work ? void(out.state = State::starting) : needs("launcher-gone");
  } else if (seen.shim_alive && slot.state == wire::exit_running) {
    const bool asked = slot.stop_requested != wire::stop_none && slot.stop_requested != wire::stop_end_run;
    out.state = asked ? State::stopping : State::running;
  } else if (seen.at_work) {
    out.state = State::finishing;
  } else {
    needs(slot.state == wire::exit_ended ? "finish-incomplete" : "supervisor-gone");
  }
}

}  // namespace

ProcessIdentity shim_identity(const wire::ExitSlot& slot) {
  return {slot_text(slot.boot_id, sizeof slot.boot_id), slot.shim_pid, slot.shim_start_ticks};
}
ProcessIdentity init_identity(const wire::ExitSlot& slot) {
  return {slot_text(slot.boot_id, sizeof slot.boot_id), slot.init_pid, slot.init_start_ticks};
}
ProcessIdentity leader_identity(const wire::ExitSlot& slot) {
  return {slot_text(slot.boot_id, sizeof slot.boot_id), slot.leader_pid, slot.leader_start_ticks};
}

Result<AttemptStatus> derive_status(const Directory& directory, bool own_lock) {
  Seen seen = look(directory, own_lock);
  AttemptStatus out;
  decide(seen, out);
  if (out.state == State::needs_recovery) {
    // Between two looks a run may just have ended: nobody at work any more, and its completion written since.
    seen = look(directory, own_lock);
    out = {};
    decide(seen, out);
  }
  out.created_unix_ms = directory.header().get("createdUnixMs").as_int().value_or(0);
  if (seen.slot.has_value()) {
    const wire::ExitSlot& slot = seen.slot.value();
    out.exit_kind = exit_kind_name(slot.kind);
    out.exit_value = slot.value;
    out.started_unix_ms = slot.started_unix_ms;
    out.exited_unix_ms = slot.exited_unix_ms;
    out.shim_pid = seen.shim_alive ? slot.shim_pid : 0;
  }
  if (const auto tail = journal::read_tail(directory.fd()); tail.has_value()) {
    out.last_sequence = tail.value().sequence;
  }
  return out;
}

Result<AttemptStatus> status(const Directory& directory) {
  return derive_status(directory, false);
}

Result<json::Value> completion(const Directory& directory) {
  auto text = read_file_at(directory.fd(), completion_name, max_document);
  if (text.has_error()) {
    if (text.error().code == "enoent") {
      return Error{ErrorClass::failed,
                   "completion-absent",
                   "read completion",
                   directory.id(),
                   "the run has not ended, or its end is not written yet",
                   ""};
    }
    return std::move(text).error();
  }
  return json::parse(text.value(), json::Duplicates::refuse, completion_name);
}

const char* state_name(State state) {
  switch (state) {
    case State::starting:
      return "starting";
    case State::running:
      return "running";
    case State::stopping:
      return "stopping";
    case State::finishing:
      return "finishing";
    case State::completed:
      return "completed";
    case State::failed:
      return "failed";
    case State::interrupted:
      return "interrupted";
    case State::needs_recovery:
      return "needs-recovery";
  }
  return "unknown";
}

}  // namespace hitchrail::attempt
