#include "runner/session_calls.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

#include "core/canonical.hpp"
#include "core/json.hpp"
#include "runner/session.hpp"

namespace hitchrail::runner {

namespace {

constexpr std::size_t max_staged_events = 65536;     // of one input
constexpr std::size_t max_staged_bytes = 64u << 20;  // of one input
constexpr std::size_t max_warnings = 16;             // journaled of one input
constexpr std::size_t max_log_line = 4096;
constexpr std::size_t max_action_json = 1u << 20;    // of an approval
constexpr std::size_t max_small_json = 64u << 10;    // details of a verdict, parameters of a call
constexpr std::size_t max_verdict_text = 64u << 10;  // a longer summary or error is cut and says so
constexpr std::size_t max_secret_name = 80;

Session& session_of(void* ctx) {
  return *static_cast<Session*>(ctx);
}

void member(std::string& out, std::string_view key, std::string_view text) {
  out += out.empty() ? "{" : ",";
  json::append_quoted(out, key);
  out += ":";
  json::append_quoted(out, text);
}
void raw_member(std::string& out, std::string_view key, std::string_view json_text) {
  out += out.empty() ? "{" : ",";
  json::append_quoted(out, key);
  out += ":";
  out += json_text;
}

const char* control_outcome(std::uint32_t outcome) {
  switch (outcome) {
    case HR_CONTROL_DELIVERED:
      return "delivered";
    case HR_CONTROL_REJECTED:
      return "rejected";
    case HR_CONTROL_IMPOSSIBLE:
      return "impossible";
    default:
      return nullptr;
  }
}

const char* verdict_name(std::uint32_t status) {
  static constexpr std::array<const char*, 6> names = {nullptr,   "success",     "failed",
                                                       "blocked", "interrupted", "partial"};
  return status < names.size() ? names[status] : nullptr;
}

std::string choices_json(std::uint32_t choices) {
  const std::uint32_t bits =
      choices != 0 ? choices : (1u << HR_DECISION_ALLOW_ONCE) | (1u << HR_DECISION_DENY);
  std::string out = "[";
  for (const auto& [decision, name] :
       {std::pair{HR_DECISION_ALLOW_ONCE, "\"allow-once\""}, std::pair{HR_DECISION_DENY, "\"deny\""},
        std::pair{HR_DECISION_CANCELLED, "\"cancelled\""},
        std::pair{HR_DECISION_ALLOW_SESSION, "\"allow-session\""}}) {
    if ((bits & (1u << decision)) != 0) {
      out += out.size() > 1 ? "," : "";
      out += name;
    }
  }
  return out + "]";
}

const char* approval_kind(std::uint32_t kind) {
  static constexpr std::array<const char*, 6> names = {nullptr, "command",     "file-change",
                                                       "tool",  "elicitation", "other"};
  return kind < names.size() ? names[kind] : nullptr;
}

}  // namespace

hr_host SessionCalls::table(Session* session) {
  hr_host host = refusing_host(session);
  host.log = log;
  host.fail = fail;
  host.now_ms = now_ms;
  host.emit = emit;
  host.send = send;
  host.close_input = close_input;
  host.signal_leader = signal_leader;
  host.request_approval = request_approval;
  host.withdraw_approval = withdraw_approval;
  host.control_result = control_result;
  host.set_conversation = set_conversation;
  host.set_turn = set_turn;
  host.call_service = call_service;
  host.set_timer = set_timer;
  host.cancel_timer = cancel_timer;
  host.finish = finish;
  host.snapshot_bytes = snapshot_bytes;
  host.end_run = end_run;
  return host;
}

bool SessionCalls::in_hook(const Session& session) {
  return session.phase_ == Session::Phase::hook || session.phase_ == Session::Phase::end_hook;
}

// Warnings are evidence and go to the journal; the rest is for people who debug an adapter with the checker.
void SessionCalls::log(void* ctx, std::uint32_t level, hr_str text) {
  Session& session = session_of(ctx);
  std::string_view line;
  if (!in_hook(session) || level < HR_LOG_WARNING || !take(text, line) || session.warnings_ >= max_warnings) {
    return;
  }
  ++session.warnings_;
  std::string fields;
  member(fields, "hook", session.hook_name_);
  member(fields, "text", cut_utf8(line, max_log_line));
  session.stage_host("adapter.warning", fields + "}");
}

void SessionCalls::fail(void* ctx, hr_str code, hr_str text) {
  Session& session = session_of(ctx);
  if (session.phase_ != Session::Phase::none) {
    session.reason_.set(code, text);
  }
}

std::int64_t SessionCalls::now_ms(void* ctx) {
  const Session& session = session_of(ctx);
  return in_hook(session) ? session.cause_.unix_ms : 0;
}

hr_result SessionCalls::check_event(const Session& session, const hr_event& event) {
  std::string_view name, type, fields, view;
  const bool readable = take(event.kind_name, name) && take(event.provider_type, type) &&
                        take(event.fields_json, fields) && take(event.item_id, view) &&
                        take(event.turn_id, view) && take(event.provider_event_id, view) &&
                        take(event.parent_event_id, view) && take(event.provider_timestamp, view) &&
                        take(event.summary, view) && take(event.text, view);
  if (!readable || (event.flags & ~(HR_EVENT_RAW_RECORD | HR_EVENT_MERGEABLE)) != 0) {
    return HR_E_ARGUMENT;
  }
  if (event.kind == HR_EVENT_NAMED ? !is_kind_name(name) || is_host_kind(name)
                                   : event_kind_name(event.kind) == nullptr) {
    return HR_E_ARGUMENT;
  }
  if (!fields.empty() && !is_json_object(fields)) {
    return HR_E_ARGUMENT;
  }
  if ((event.flags & HR_EVENT_RAW_RECORD) != 0 &&
      session.cause_.origin.kind != journal::Origin::Kind::record) {
    return HR_E_STATE;
  }
  const std::size_t size = type.size() + event.summary.size + event.text.size + fields.size();
  if (size > HR_MAX_EVENT_PAYLOAD || session.staged_bytes_ + size > max_staged_bytes ||
      session.staged_count_ >= max_staged_events) {
    return HR_E_LIMIT;
  }
  return HR_OK;
}

hr_result SessionCalls::emit(void* ctx, const hr_event* in) {
  Session& session = session_of(ctx);
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  hr_event event;
  if (!read_struct(in, event)) {
    return HR_E_ARGUMENT;
  }
  if (const hr_result result = check_event(session, event); result != HR_OK) {
    return result;
  }
  const auto view = [](hr_str text) {
    return text.data == nullptr ? std::string_view{} : std::string_view(text.data, text.size);
  };
  const std::string_view name = view(event.kind_name);
  journal::Draft& draft = session.stage(
      event.kind == HR_EVENT_NAMED ? std::string(name) : std::string(event_kind_name(event.kind)));
  draft.provider_type = bounded_id(view(event.provider_type));
  draft.item_id = bounded_id(view(event.item_id));
  if (event.turn_id.size != 0) {
    draft.turn_id = bounded_id(view(event.turn_id));
  }
  draft.provider_event_id = bounded_id(view(event.provider_event_id));
  draft.parent_event_id = bounded_id(view(event.parent_event_id));
  if (is_rfc3339(view(event.provider_timestamp))) {
    draft.provider_timestamp = view(event.provider_timestamp);
  }
  draft.summary = session.keep(view(event.summary));
  draft.text = session.keep(view(event.text));
  draft.fields_json = session.keep(view(event.fields_json));
  draft.has_raw = (event.flags & HR_EVENT_RAW_RECORD) != 0;
  draft.raw = draft.has_raw ? session.cause_.raw : std::string_view{};
  draft.mergeable = (event.flags & HR_EVENT_MERGEABLE) != 0;
  return HR_OK;
}

hr_result SessionCalls::send(void* ctx, const hr_part* parts, std::size_t count) {
  Session& session = session_of(ctx);
  if (!session.may_act() || session.input_closed) {
    return HR_E_STATE;
  }
  if (parts == nullptr && count != 0) {
    return HR_E_ARGUMENT;
  }
  std::string& outbox = session.effects.outbox;
  const std::size_t before = outbox.size();
  for (std::size_t i = 0; i < count; ++i) {
    const hr_part& part = parts[i];
    std::string_view bytes;
    const bool secret = part.kind == HR_PART_SECRET;
    const bool known =
        secret ? part.encoding <= HR_ENCODE_BASE64 : part.kind == HR_PART_BYTES && part.encoding == 0;
    if (!known || !take(part.bytes, bytes) || (secret && (bytes.empty() || bytes.size() > max_secret_name))) {
      outbox.resize(before);
      return HR_E_ARGUMENT;
    }
    // The bound counts the part's header too: it is what the slot's area holds.
    if (bytes.size() > wire::max_outbox ||
        outbox.size() + sizeof(wire::OutboxPart) + bytes.size() > wire::max_outbox) {
      outbox.resize(before);
      return HR_E_LIMIT;
    }
    const wire::OutboxPart head{secret ? wire::part_secret : wire::part_bytes, part.encoding,
                                static_cast<std::uint32_t>(bytes.size())};
    outbox.append(reinterpret_cast<const char*>(&head), sizeof(head));
    outbox.append(bytes);
  }
  return HR_OK;
}

hr_result SessionCalls::close_input(void* ctx) {
  Session& session = session_of(ctx);
  if (!session.may_act()) {
    return HR_E_STATE;
  }
  if (!session.input_closed) {
    session.input_closed = true;
    session.effects.close_input = true;
    ++session.action;
  }
  return HR_OK;
}

hr_result SessionCalls::signal_leader(void* ctx, std::int32_t signal) {
  Session& session = session_of(ctx);
  if (!session.may_act()) {
    return HR_E_STATE;
  }
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGUSR1 && signal != SIGUSR2) {
    return HR_E_ARGUMENT;
  }
  if (session.effects.signals.size() >= wire::max_signals) {
    return HR_E_LIMIT;
  }
  session.effects.signals.push_back(signal);
  ++session.action;
  return HR_OK;
}

hr_result SessionCalls::request_approval(void* ctx, const hr_approval* in) {
  Session& session = session_of(ctx);
  if (!session.may_act() || session.adapter_.on_decision == nullptr) {
    return HR_E_STATE;
  }
  hr_approval approval;
  std::string_view id, item, action;
  if (!read_struct(in, approval) || !take(approval.approval_id, id) || !take(approval.item_id, item) ||
      !take(approval.action_json, action) || approval_kind(approval.kind) == nullptr || id.empty()) {
    return HR_E_ARGUMENT;
  }
  auto& open = session.state.open_approvals;
  if (id.size() > max_id || std::find(open.begin(), open.end(), id) != open.end() ||
      !is_json_object(action)) {
    return HR_E_ARGUMENT;
  }
  if (open.size() >= max_open_approvals || action.size() > max_action_json ||
      session.staged_count_ >= max_staged_events) {
    return HR_E_LIMIT;
  }
  std::string fields;
  member(fields, "approvalId", id);
  member(fields, "approvalKind", approval_kind(approval.kind));
  raw_member(fields, "action", action);
  member(fields, "actionHash", sha256_prefixed(action));
  raw_member(fields, "choices", choices_json(approval.choices));
  if (approval.expires_ms != 0) {
    raw_member(fields, "expiresMs", std::to_string(approval.expires_ms));
  }
  session.stage_host("approval.requested", fields + "}", bounded_id(item));
  open.emplace_back(id);
  return HR_OK;
}

hr_result SessionCalls::withdraw_approval(void* ctx, hr_str approval_id) {
  Session& session = session_of(ctx);
  std::string_view id;
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  if (!take(approval_id, id)) {
    return HR_E_ARGUMENT;
  }
  session.resolve_approval(id, "withdrawn");
  return HR_OK;
}

void SessionCalls::stage_control_result(Session& session, std::uint64_t control_id, std::uint32_t outcome,
                                        std::string_view detail) {
  std::string fields = "{\"controlId\":" + std::to_string(control_id);
  member(fields, "outcome", control_outcome(outcome));
  if (!detail.empty()) {
    member(fields, "detail", cut_utf8(detail, max_log_line));
  }
  session.stage_host("control.result", fields + "}");
}

hr_result SessionCalls::control_result(void* ctx, std::uint64_t control_id, std::uint32_t outcome,
                                       hr_str detail) {
  Session& session = session_of(ctx);
  std::string_view text;
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  if (control_outcome(outcome) == nullptr || !take(detail, text)) {
    return HR_E_ARGUMENT;
  }
  if (session.staged_count_ >= max_staged_events) {
    return HR_E_LIMIT;
  }
  stage_control_result(session, control_id, outcome, text);
  return HR_OK;
}

hr_result SessionCalls::set_conversation(void* ctx, hr_str conversation_id) {
  Session& session = session_of(ctx);
  std::string_view id;
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  if (!take(conversation_id, id)) {
    return HR_E_ARGUMENT;
  }
  session.state.conversation_id = bounded_id(id);
  return HR_OK;
}

hr_result SessionCalls::set_turn(void* ctx, hr_str turn_id) {
  Session& session = session_of(ctx);
  std::string_view id;
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  if (!take(turn_id, id)) {
    return HR_E_ARGUMENT;
  }
  session.state.turn_id = bounded_id(id);
  return HR_OK;
}

hr_result SessionCalls::call_service(void* ctx, hr_str service, hr_str method, hr_str params_json,
                                     std::uint64_t* call_id) {
  Session& session = session_of(ctx);
  std::string_view name, method_name, params;
  if (!session.may_act() || session.adapter_.on_call_result == nullptr) {
    return HR_E_STATE;
  }
  if (call_id == nullptr || !take(service, name) || !take(method, method_name) ||
      !take(params_json, params) || (!params.empty() && !json::is_valid_line(params))) {
    return HR_E_ARGUMENT;
  }
  if (params.size() > max_small_json || session.calls_.size() >= max_open_approvals) {
    return HR_E_LIMIT;
  }
  *call_id = ++session.state.last_call_id;
  session.calls_.push_back({*call_id});
  return HR_OK;
}

hr_result SessionCalls::arm(Session& session, std::uint32_t timer_id, std::uint32_t after_ms) {
  auto& timers = session.timers;
  auto slot = std::find_if(timers.begin(), timers.end(), [&](const wire::Timer& timer) {
    return timer.armed != 0 && timer.id == timer_id;
  });
  if (slot == timers.end()) {
    slot =
        std::find_if(timers.begin(), timers.end(), [](const wire::Timer& timer) { return timer.armed == 0; });
  }
  if (slot == timers.end()) {
    return HR_E_LIMIT;
  }
  *slot = {timer_id, 1, ++session.action, after_ms};
  return HR_OK;
}

hr_result SessionCalls::set_timer(void* ctx, std::uint32_t timer_id, std::uint32_t after_ms) {
  Session& session = session_of(ctx);
  if (!session.may_act() || session.adapter_.on_timer == nullptr) {
    return HR_E_STATE;
  }
  return arm(session, timer_id, after_ms);
}

hr_result SessionCalls::cancel_timer(void* ctx, std::uint32_t timer_id) {
  Session& session = session_of(ctx);
  if (!in_hook(session)) {
    return HR_E_STATE;
  }
  for (auto& timer : session.timers) {
    if (timer.armed != 0 && timer.id == timer_id) {
      timer = {};
      ++session.action;
    }
  }
  return HR_OK;
}

void SessionCalls::stage_verdict(Session& session, const hr_verdict& verdict) {
  const auto view = [](hr_str text) {
    return text.data == nullptr ? std::string_view{} : std::string_view(text.data, text.size);
  };
  std::string fields;
  member(fields, "status", verdict_name(verdict.status));
  if (verdict.code.size != 0) {
    member(fields, "code", view(verdict.code));
  }
  if (verdict.error.size != 0) {
    member(fields, "error", cut_utf8(view(verdict.error), max_verdict_text));
  }
  if (verdict.continuation_kind.size != 0) {
    std::string continuation;
    member(continuation, "kind", view(verdict.continuation_kind));
    member(continuation, "reference", view(verdict.continuation_reference));
    raw_member(fields, "continuation", continuation + "}");
  }
  if (verdict.details_json.size != 0) {
    raw_member(fields, "details", view(verdict.details_json));
  }
  if (verdict.summary.size > max_verdict_text) {
    raw_member(fields, "summaryBytes", std::to_string(verdict.summary.size));
  }
  journal::Draft& draft = session.stage("run.verdict");
  draft.fields_json = session.keep(fields + "}");
  draft.summary = session.keep(cut_utf8(view(verdict.summary), max_verdict_text));
}

void SessionCalls::stage_missing_verdict(Session& session) {
  session.stage_host(
      "run.verdict",
      R"({"status":"failed","code":"no-verdict","error":"the adapter gave no verdict at the end"})");
}

hr_result SessionCalls::finish(void* ctx, const hr_verdict* in) {
  Session& session = session_of(ctx);
  if (session.phase_ != Session::Phase::end_hook || session.has_verdict_) {
    return HR_E_STATE;
  }
  hr_verdict verdict;
  std::string_view code, summary, error, kind, reference, details;
  if (!read_struct(in, verdict) || !take(verdict.code, code) || !take(verdict.summary, summary) ||
      !take(verdict.error, error) || !take(verdict.continuation_kind, kind) ||
      !take(verdict.continuation_reference, reference) || !take(verdict.details_json, details)) {
    return HR_E_ARGUMENT;
  }
  const bool kind_known =
      kind.empty() || kind == "thread" || kind == "session" || kind == "run" || kind == "other";
  if (verdict_name(verdict.status) == nullptr || (!code.empty() && !is_kebab(code)) || !kind_known ||
      kind.empty() != reference.empty() || (verdict.status == HR_VERDICT_FAILED && error.empty()) ||
      (!details.empty() && !is_json_object(details))) {
    return HR_E_ARGUMENT;
  }
  if (details.size() > max_small_json || reference.size() > max_log_line) {
    return HR_E_LIMIT;
  }
  session.has_verdict_ = true;
  stage_verdict(session, verdict);
  return HR_OK;
}

hr_result SessionCalls::snapshot_bytes(void* ctx, hr_str bytes) {
  Session& session = session_of(ctx);
  std::string_view view;
  if (session.phase_ != Session::Phase::snapshot || session.has_snapshot_) {
    return HR_E_STATE;
  }
  if (!take(bytes, view)) {
    return HR_E_ARGUMENT;
  }
  if (view.size() > HR_MAX_SNAPSHOT) {
    return HR_E_LIMIT;
  }
  session.snapshot_.assign(view);
  session.has_snapshot_ = true;
  return HR_OK;
}

hr_result SessionCalls::end_run(void* ctx) {
  Session& session = session_of(ctx);
  if (!session.may_act()) {
    return HR_E_STATE;
  }
  session.effects.end_run = true;
  ++session.action;
  return HR_OK;
}

}  // namespace hitchrail::runner
