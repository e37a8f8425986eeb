#pragma once
// One adapter session of a live run: calls hooks, answers callbacks, collects what a hook caused.
//
// Promises: a hook's events are staged and given out only when the hook and the service answers it caused
// returned HR_OK; what the harness, shim or journal would get is never touched by a callback outside its
// hook; `Current` says which hook runs on which input. Refuses: see checks.hpp and the bounds of adapter.h.
// Knows nothing of files, sockets or slots.

#include <hitchrail/adapter.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "journal/journal.hpp"
#include "runner/checks.hpp"
#include "runner/state.hpp"
#include "shim/wire.hpp"

namespace hitchrail::runner {

// What the shim shall do, collected over one commit.
struct Effects {
  std::string outbox;  // wire::OutboxPart list
  bool close_input = false;
  bool end_run = false;
  std::vector<std::int32_t> signals;
  // Nothing that must reach the harness waits.
  [[nodiscard]] bool quiet() const { return outbox.empty() && !close_input && !end_run && signals.empty(); }
};

// The input a hook is called for.
struct Cause {
  journal::Origin origin;  // ordinals are counted up from 0
  std::int64_t unix_ms = 0;
  std::uint64_t size = 0;  // of a record with its frame
  std::string_view raw;    // of a record
};

class Session {
 public:
  Session(const hr_adapter& adapter, wire::Current& current);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status reattach(std::uint32_t hr_state, std::string_view snapshot);

  Status map_events(const Cause& cause, std::uint32_t flags);
  Status on_exit(const Cause& cause, const hr_exit& exit);
  Status on_end(const Cause& cause);
  Status control(const Cause& cause, const hr_control& control);
  Status on_decision(const Cause& cause, std::uint32_t decision, std::string_view approval_id,
                     std::string_view answer);
  Status on_timer(const Cause& cause, std::uint32_t timer_id, std::uint64_t action);
  Result<std::string_view> snapshot();  // valid until the next call
  void close();

  // Events of the last successful call, in order; valid until the next call.
  [[nodiscard]] std::span<const journal::Draft> staged() const { return {staged_.data(), staged_count_}; }
  // Stages an event of the host's own under the running or next cause (used by the loop for inputs without a
  // hook).
  void begin(const Cause& cause);
  void stage_host(std::string_view kind, std::string_view fields_json, std::string_view item_id = {});
  void arm(std::uint32_t timer_id, std::uint32_t after_ms);

  Effects effects;                                     // taken and emptied by the commit
  std::array<wire::Timer, wire::max_timers> timers{};  // armed ones
  std::uint64_t action = 0;
  SessionState state;
  bool input_closed = false;
  bool exited = false;

 private:
  friend struct SessionCalls;
  enum class Phase { none, reattach, hook, end_hook, snapshot };
  struct Call {
    std::uint64_t id = 0;
  };

  template <class F>
  Status run(wire::Hook hook, const char* name, Phase phase, F&& body);
  template <class F>
  Status run_with_calls(wire::Hook hook, const char* name, Phase phase, F&& body);
  journal::Draft& stage(std::string kind);
  std::string_view keep(std::string_view text);
  void stage_verdict(std::optional<hr_verdict> verdict);
  void resolve_approval(std::string_view id, const char* decision);
  [[nodiscard]] bool may_act() const { return (phase_ == Phase::hook) && !exited && !exiting_; }

  hr_adapter adapter_{};
  hr_host host_{};
  hr_session* session_ = nullptr;
  wire::Current& current_;
  Phase phase_ = Phase::none;
  bool exiting_ = false;
  const char* hook_name_ = "";
  Cause cause_;
  Reason reason_;
  std::vector<journal::Draft> staged_;  // the first staged_count_ are live; the rest keep their capacity
  std::size_t staged_count_ = 0;
  std::size_t staged_bytes_ = 0;
  std::size_t warnings_ = 0;
  std::array<std::byte, 16384> first_block_{};
  std::pmr::monotonic_buffer_resource arena_{first_block_.data(), first_block_.size()};
  std::deque<Call> calls_;  // answered after the hook that made them
  std::string snapshot_;
  bool has_snapshot_ = false;
  bool has_verdict_ = false;
};

}  // namespace hitchrail::runner
