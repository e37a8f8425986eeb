#include "session.hpp"

#include <algorithm>
#include <csignal>

#include "rollout.hpp"

namespace hitchrail::codex_cli {
namespace {

constexpr std::size_t shown_of_truncated = 4096;

void emit(sdk::Host& host, const Mapped& mapped) {
  auto event = sdk::make<hr_event>();
  event.kind = mapped.kind;
  event.flags = mapped.raw ? HR_EVENT_RAW_RECORD : 0;
  event.kind_name = sdk::str(mapped.kind_name);
  event.provider_type = sdk::str(mapped.provider_type);
  event.item_id = sdk::str(mapped.item_id);
  event.summary = sdk::str(mapped.summary);
  event.text = sdk::str(mapped.text);
  event.fields_json = sdk::str(mapped.fields);
  host.emit(event);
}

void emit_error(sdk::Host& host, std::string_view code, std::string_view text, std::string_view more_fields) {
  std::string fields = "{\"code\":\"" + std::string(code) + "\"" + std::string(more_fields) + "}";
  auto event = sdk::make<hr_event>();
  event.kind = HR_EVENT_RUN_ERROR;
  event.text = sdk::str(text);
  event.fields_json = sdk::str(fields);
  host.emit(event);
}

void emit_usage(sdk::Host& host, const Usage* run, const Usage& thread, std::string_view source) {
  std::string fields;
  if (run != nullptr) {
    append_usage(fields, *run);
    fields.back() = ',';
  } else {
    fields = "{";
  }
  fields += "\"cumulative\":";
  append_usage(fields, thread);
  fields += ",\"source\":\"" + std::string(source) + "\"}";
  auto event = sdk::make<hr_event>();
  event.kind = HR_EVENT_USAGE_UPDATED;
  event.fields_json = sdk::str(fields);
  host.emit(event);
}

// The thread's counters only grow; one that does not was counted anew, and then all of it is this run's.
std::uint64_t grown(std::uint64_t now, std::uint64_t before) {
  return now >= before ? now - before : now;
}

Usage difference(const Usage& now, const Usage& before) {
  return {grown(now.input, before.input), grown(now.cached_input, before.cached_input),
          grown(now.cache_write_input, before.cache_write_input), grown(now.output, before.output),
          grown(now.reasoning_output, before.reasoning_output)};
}

Usage prior_usage(const json::View& view) {
  Usage out;
  out.input = view.get("inputTokens").count().value_or(0);
  out.cached_input = view.get("cachedInputTokens").count().value_or(0);
  out.cache_write_input = view.get("cacheWriteInputTokens").count().value_or(0);
  out.output = view.get("outputTokens").count().value_or(0);
  out.reasoning_output = view.get("reasoningOutputTokens").count().value_or(0);
  return out;
}

bool is_work(ItemType type) {
  return type == ItemType::command || type == ItemType::file_change;
}

}  // namespace

CodexSession::CodexSession(const Launch& launch) {
  state_.resume = launch.mode == HR_LAUNCH_RESUME;
  state_.wanted_thread = launch.thread;
  state_.usage_base_known = !state_.resume || launch.prior_usage.is_object();
  state_.usage_base = prior_usage(launch.prior_usage);
}

void CodexSession::map_events(sdk::Host& host, const hr_record& record) {
  const bool absent = (record.flags & HR_RECORD_ABSENT) != 0;
  const bool truncated = (record.flags & HR_RECORD_TRUNCATED) != 0;
  switch (record.stream) {
    case HR_STREAM_STDOUT:
      truncated ? truncated_record(host, record) : stdout_record(host, record);
      break;
    case HR_STREAM_STDERR:
      stderr_record(host, record);
      break;
    case session_stream:
      if (!absent && !truncated) {
        read_session_line(state_.session_file, sdk::view(record.bytes), state_.thread);
      }
      break;
    case last_message_stream:
      state_.last_message_read = !absent && !truncated;
      state_.last_message = state_.last_message_read ? fingerprint(sdk::view(record.bytes)) : Fingerprint{};
      break;
    default:
      throw sdk::Failure(HR_E_ARGUMENT, "unknown-stream", "a record of a stream that the plan does not name");
  }
}

void CodexSession::stdout_record(sdk::Host& host, const hr_record& record) {
  const Mapped& mapped = mapper_.map(sdk::view(record.bytes), state_.resume);
  switch (mapped.record) {
    case RecordType::thread_started:
      thread_started(host, mapped);
      return;
    case RecordType::turn_completed:
      emit(host, mapped);
      state_.terminal = Terminal::completed;
      if (mapped.usage) {
        take_usage(host, *mapped.usage);
      }
      return;
    case RecordType::turn_failed:
      state_.terminal = Terminal::failed;
      state_.failure = cut(mapped.text, kept_error);
      break;
    case RecordType::error:
      state_.last_error = cut(mapped.text, kept_error);
      break;
    case RecordType::turn_started:
      state_.terminal = Terminal::none;
      break;
    case RecordType::item:
      take_item(mapped);
      break;
    case RecordType::other:
    case RecordType::not_json:
      break;
  }
  emit(host, mapped);
}

void CodexSession::truncated_record(sdk::Host& host, const hr_record& record) {
  ++state_.truncated;
  const std::string_view bytes = sdk::view(record.bytes);
  const std::string_view head = bytes.substr(0, shown_of_truncated);
  emit_error(host, "codex-record-truncated",
             json::valid_utf8(head) ? cut(head, shown_of_truncated) : std::string(),
             ",\"terminal\":false,\"offset\":" + std::to_string(record.offset) +
                 ",\"keptBytes\":" + std::to_string(bytes.size()));
}

void CodexSession::stderr_record(sdk::Host& host, const hr_record& record) {
  const std::string_view line = sdk::view(record.bytes);
  const bool text = json::valid_utf8(line);
  auto event = sdk::make<hr_event>();
  event.kind = HR_EVENT_STREAM_STDERR;
  event.flags = text ? 0 : HR_EVENT_RAW_RECORD;
  event.text = text ? record.bytes : hr_str{};
  const std::string_view fields = (record.flags & HR_RECORD_TRUNCATED) != 0 ? "{\"truncated\":true}" : "";
  event.fields_json = sdk::str(fields);
  host.emit(event);
  // Said by every run; what matters is what comes after it.
  if (!text || line.empty() || line.starts_with("Reading prompt from stdin") ||
      line.starts_with("Reading additional input from stdin")) {
    return;
  }
  std::string& tail = state_.stderr_tail;
  tail += (tail.empty() ? "" : "\n") + cut(line, kept_stderr);
  if (tail.size() > kept_stderr) {
    std::size_t begin = tail.size() - kept_stderr;
    while (begin < tail.size() && (static_cast<unsigned char>(tail[begin]) & 0xc0) == 0x80) {
      ++begin;
    }
    tail.erase(0, begin);
  }
}

void CodexSession::thread_started(sdk::Host& host, const Mapped& mapped) {
  const std::string id = cut(mapped.thread_id, kept_id);
  const std::string& expected = state_.thread.empty() ? state_.wanted_thread : state_.thread;
  if (!expected.empty() && id != expected) {
    mismatch(host, id);
    return;
  }
  if (!state_.thread.empty() || id.empty()) {
    // A second announcement of the same thread, or one without a name, begins nothing.
    Mapped again = mapped;
    again.kind = HR_EVENT_PROGRESS;
    emit(host, again);
    return;
  }
  state_.thread = id;
  host.set_conversation(id);
  emit(host, mapped);
}

void CodexSession::mismatch(sdk::Host& host, std::string_view answered) {
  std::string more = ",\"terminal\":true,\"answered\":";
  json::append_quoted(more, answered);
  more += ",\"expected\":";
  json::append_quoted(more, state_.thread.empty() ? state_.wanted_thread : state_.thread);
  emit_error(host, "conversation-mismatch", "the program began or took up another conversation", more);
  const bool first = state_.foreign_thread.empty();
  state_.foreign_thread = answered.empty() ? "without a name" : std::string(answered);
  if (first && state_.exit_kind == 0) {
    host.signal_leader(SIGINT);
  }
}

void CodexSession::take_item(const Mapped& mapped) {
  const std::string id = cut(mapped.item_id, kept_id);
  if (mapped.phase == Phase::started) {
    state_.work_items += is_work(mapped.item) ? 1 : 0;
    if (state_.open.size() < kept_open_items) {
      state_.open.push_back({id, mapped.item});
    } else {
      ++state_.open_unlisted;
    }
    return;
  }
  if (mapped.phase != Phase::completed) {
    return;
  }
  const auto found = std::find(state_.open.begin(), state_.open.end(), OpenItem{id, mapped.item});
  if (found != state_.open.end()) {
    state_.open.erase(found);
  } else if (state_.open_unlisted > 0 && mapped.item != ItemType::agent_message &&
             mapped.item != ItemType::reasoning) {
    --state_.open_unlisted;
  } else {
    state_.work_items += is_work(mapped.item) ? 1 : 0;
  }
  state_.failed_items += is_work(mapped.item) && mapped.failed_status ? 1 : 0;
  state_.not_started += mapped.not_started ? 1 : 0;
  if (mapped.item == ItemType::agent_message) {
    state_.answer = fingerprint(mapped.text);
    state_.answer_text = cut(mapped.text, kept_text);
  }
}

void CodexSession::take_usage(sdk::Host& host, const Usage& usage) {
  state_.usage_seen = true;
  state_.usage = usage;
  const Usage run = difference(usage, state_.usage_base);
  emit_usage(host, state_.usage_base_known ? &run : nullptr, usage, "stream");
}

void CodexSession::control(sdk::Host& host, const hr_control& control) {
  if (control.kind != HR_CONTROL_INTERRUPT && control.kind != HR_CONTROL_SHUTDOWN) {
    host.control_result(control.control_id, HR_CONTROL_IMPOSSIBLE,
                        "codex exec takes one message; send a further one by resuming the run");
    return;
  }
  state_.interrupt_asked = true;
  host.signal_leader(SIGINT);
  host.control_result(control.control_id, HR_CONTROL_DELIVERED);
}

void CodexSession::on_exit(sdk::Host& host, const hr_exit& exit) {
  state_.exit_kind = exit.kind;
  state_.exit_value = exit.value;
  state_.stop_requested = exit.stop_request != 0;
  // The stream never said how these ended: some the program left running, of others it dropped the record.
  for (const OpenItem& item : state_.open) {
    if (item.type == ItemType::command) {
      auto event = sdk::make<hr_event>();
      event.kind = HR_EVENT_COMMAND_DETACHED;
      event.item_id = sdk::str(item.id);
      event.fields_json = sdk::str("{\"reason\":\"no-completion-record\"}");
      host.emit(event);
    }
  }
}

void CodexSession::on_end(sdk::Host& host) {
  const SessionFile& file = state_.session_file;
  if (!state_.usage_base_known && file.usage_known && file.ours()) {
    const Usage run = difference(file.usage, file.usage_base);
    emit_usage(host, &run, file.usage, "session-file");
  }
  const Ending ending = verdict(state_);
  const std::string details = verdict_details(state_, ending);
  auto out = sdk::make<hr_verdict>();
  out.status = ending.status;
  out.code = sdk::str(ending.code);
  out.summary = sdk::str(state_.answer_text);
  out.error = sdk::str(ending.error);
  if (!state_.thread.empty() && state_.foreign_thread.empty()) {
    out.continuation_kind = sdk::str("thread");
    out.continuation_reference = sdk::str(state_.thread);
  }
  out.details_json = sdk::str(details);
  host.finish(out);
}

std::string CodexSession::snapshot(sdk::Host& /*host*/) const {
  return encode(state_);
}

}  // namespace hitchrail::codex_cli
