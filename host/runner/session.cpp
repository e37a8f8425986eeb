#include "runner/session.hpp"

#include <algorithm>
#include <utility>

#include "core/json.hpp"
#include "runner/session_calls.hpp"

namespace hitchrail::runner {

namespace {

constexpr std::size_t max_answered_calls =
    1024;  // that one input may cause, so that a refused call cannot loop

const char* decision_name(std::uint32_t decision) {
  switch (decision) {
    case HR_DECISION_ALLOW_ONCE:
      return "allow-once";
    case HR_DECISION_DENY:
      return "deny";
    case HR_DECISION_ALLOW_SESSION:
      return "allow-session";
    default:
      return "cancelled";
  }
}

}  // namespace

Session::Session(const hr_adapter& adapter, wire::Current& current) : current_(current) {
  read_struct(&adapter, adapter_);
  host_ = SessionCalls::table(this);
}

void Session::begin(const Cause& cause) {
  cause_ = cause;
  staged_count_ = 0;
  staged_bytes_ = 0;
  warnings_ = 0;
  reason_ = {};
  calls_.clear();
  arena_.release();
}

std::string_view Session::keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  auto* copy = static_cast<char*>(arena_.allocate(text.size(), 1));
  std::memcpy(copy, text.data(), text.size());
  staged_bytes_ += text.size();
  return {copy, text.size()};
}

journal::Draft& Session::stage(std::string kind) {
  if (staged_count_ == staged_.size()) {
    staged_.emplace_back();
  }
  journal::Draft& draft = staged_[staged_count_];
  draft.kind = std::move(kind);
  draft.origin = cause_.origin;
  draft.origin.ordinal = static_cast<std::uint32_t>(staged_count_);
  draft.session_id = state.conversation_id;
  draft.turn_id = state.turn_id;
  for (auto* member : {&draft.provider_type, &draft.item_id, &draft.provider_event_id, &draft.parent_event_id,
                       &draft.provider_timestamp}) {
    member->clear();
  }
  draft.raw = draft.summary = draft.text = draft.fields_json = {};
  draft.has_raw = draft.mergeable = draft.system = false;
  ++staged_count_;
  return draft;
}

void Session::stage_host(std::string_view kind, std::string_view fields_json, std::string_view item_id) {
  journal::Draft& draft = stage(std::string(kind));
  draft.fields_json = keep(fields_json);
  draft.system = true;
  draft.item_id = item_id;
}

void Session::arm(std::uint32_t timer_id, std::uint32_t after_ms) {
  SessionCalls::arm(*this, timer_id, after_ms);
}

// Publishes what runs for the shim's watchdog and crash accounting, and opens the callbacks for exactly this
// hook.
template <class F>
Status Session::run(wire::Hook hook, const char* name, Phase phase, F&& body) {
  const bool record = cause_.origin.kind == journal::Origin::Kind::record;
  current_.stream = phase == Phase::snapshot || !record ? 0 : cause_.origin.stream;
  current_.offset = phase == Phase::snapshot || !record ? 0 : cause_.origin.offset;
  current_.size = phase == Phase::snapshot ? 0 : cause_.size;
  current_.input = phase == Phase::snapshot || record ? 0 : cause_.origin.input;
  ++current_.count;
  current_.busy.store(hook, std::memory_order_release);
  phase_ = phase;
  hook_name_ = name;
  const hr_result result = body();
  phase_ = Phase::none;
  current_.busy.store(wire::hook_none, std::memory_order_release);
  if (result != HR_OK) {
    return hook_error(name, result, reason_, false);
  }
  return {};
}

// No service is granted yet, so every call is answered in the order made, as part of the same input.
template <class F>
Status Session::run_with_calls(wire::Hook hook, const char* name, Phase phase, F&& body) {
  HR_CHECK(run(hook, name, phase, std::forward<F>(body)));
  constexpr std::string_view refusal =
      R"({"code":"service-not-granted","message":"this run has no such service"})";
  for (std::size_t answered = 0; !calls_.empty(); ++answered) {
    if (answered == max_answered_calls) {
      return hook_error("on_call_result", HR_E_LIMIT, reason_, false);
    }
    hr_call_result result{};
    result.struct_size = sizeof(result);
    result.outcome = HR_CALL_REFUSED;
    result.call_id = calls_.front().id;
    result.result_json = str(refusal);
    calls_.pop_front();
    HR_CHECK(run(wire::hook_on_call_result, "on_call_result", Phase::hook,
                 [&] { return adapter_.on_call_result(&host_, session_, &result); }));
  }
  return {};
}

Status Session::reattach(std::uint32_t hr_state, std::string_view snapshot) {
  begin({});
  hr_reattach request{};
  request.struct_size = sizeof(request);
  request.state = hr_state;
  request.snapshot = str(snapshot);
  HR_CHECK(run(wire::hook_reattach, "reattach", Phase::reattach,
               [&] { return adapter_.reattach(&host_, &request, &session_); }));
  if (session_ == nullptr) {
    reason_.text = "no session was made";
    return hook_error("reattach", HR_E_INTERNAL, reason_, false);
  }
  exited = hr_state == HR_STATE_EXITED;
  return {};
}

Status Session::map_events(const Cause& cause, std::uint32_t flags) {
  begin(cause);
  hr_record record{};
  record.struct_size = sizeof(record);
  record.stream = cause.origin.stream;
  record.flags = flags;
  record.offset = cause.origin.offset;
  record.bytes = str(cause.raw);
  return run_with_calls(wire::hook_map_events, "map_events", Phase::hook,
                        [&] { return adapter_.map_events(&host_, session_, &record); });
}

Status Session::on_exit(const Cause& cause, const hr_exit& exit) {
  begin(cause);
  while (!state.open_approvals.empty()) {
    resolve_approval(state.open_approvals.front(), "cancelled");
  }
  timers = {};
  exiting_ = true;
  const Status status = run(wire::hook_on_exit, "on_exit", Phase::hook,
                            [&] { return adapter_.on_exit(&host_, session_, &exit); });
  exiting_ = false;
  exited = true;
  return status;
}

Status Session::on_end(const Cause& cause) {
  begin(cause);
  has_verdict_ = false;
  HR_CHECK(
      run(wire::hook_on_end, "on_end", Phase::end_hook, [&] { return adapter_.on_end(&host_, session_); }));
  if (!has_verdict_) {
    SessionCalls::stage_missing_verdict(*this);
  }
  return {};
}

Status Session::control(const Cause& cause, const hr_control& control) {
  begin(cause);
  if (adapter_.control == nullptr || exited) {
    SessionCalls::stage_control_result(*this, control.control_id, HR_CONTROL_IMPOSSIBLE,
                                       exited ? "the harness has exited" : "the adapter takes no control");
    return {};
  }
  return run_with_calls(wire::hook_control, "control", Phase::hook,
                        [&] { return adapter_.control(&host_, session_, &control); });
}

void Session::resolve_approval(std::string_view id, const char* decision) {
  const auto open = std::find(state.open_approvals.begin(), state.open_approvals.end(), id);
  if (open == state.open_approvals.end()) {
    return;
  }
  std::string fields = R"({"approvalId":)";
  json::append_quoted(fields, id);
  fields += R"(,"decision":")" + std::string(decision) + "\"}";
  stage_host("approval.resolved", fields);
  state.open_approvals.erase(open);
}

Status Session::on_decision(const Cause& cause, std::uint32_t decision, std::string_view approval_id,
                            std::string_view answer) {
  begin(cause);
  const auto& open = state.open_approvals;
  if (exited || std::find(open.begin(), open.end(), approval_id) == open.end()) {
    return {};  // resolved meanwhile: a second answer must not reach the harness
  }
  resolve_approval(approval_id, decision_name(decision));
  hr_decision input{};
  input.struct_size = sizeof(input);
  input.decision = decision;
  input.approval_id = str(approval_id);
  input.answer_json = str(answer);
  return run_with_calls(wire::hook_on_decision, "on_decision", Phase::hook,
                        [&] { return adapter_.on_decision(&host_, session_, &input); });
}

Status Session::on_timer(const Cause& cause, std::uint32_t timer_id, std::uint64_t set_by) {
  begin(cause);
  const auto timer = std::find_if(timers.begin(), timers.end(), [&](const wire::Timer& candidate) {
    return candidate.armed != 0 && candidate.id == timer_id && candidate.action == set_by;
  });
  if (exited || timer == timers.end()) {
    return {};  // set again or cancelled after it fired
  }
  *timer = {};
  return run_with_calls(wire::hook_on_timer, "on_timer", Phase::hook,
                        [&] { return adapter_.on_timer(&host_, session_, timer_id); });
}

Result<std::string_view> Session::snapshot() {
  has_snapshot_ = false;
  reason_ = {};
  HR_CHECK(run(wire::hook_snapshot, "snapshot", Phase::snapshot,
               [&] { return adapter_.snapshot(&host_, session_); }));
  if (!has_snapshot_) {
    reason_.text = "snapshot_bytes was not called";
    return hook_error("snapshot", HR_E_INTERNAL, reason_, false);
  }
  return std::string_view(snapshot_);
}

void Session::close() {
  if (session_ != nullptr) {
    (void)run(wire::hook_close, "close", Phase::none, [&] {
      adapter_.close(session_);
      return HR_OK;
    });
    session_ = nullptr;
  }
}

}  // namespace hitchrail::runner
