// The adapter of tests/peers/script-harness: small, and able to do everything a real adapter may do, on the
// harness's word. One JSON object a line on stdout:
//
//   {"type":"delta","item":I,"text":T}            mergeable message.delta
//   {"type":"message","text":T}                   message.assistant with the raw record
//   {"type":"ask","id":N}                         sends `answer N`
//   {"type":"approve","id":I}                     asks the operator; the decision is sent as `decision NAME`
//   {"type":"call","id":N}                        calls a service; the outcome is sent as `called N OUTCOME`
//   {"type":"timer","ms":N}                       sets a timer; when it fires, `timer` is sent
//   {"type":"thread","id":I}   {"type":"turn","id":I}   sticky ids
//   {"type":"close"}   {"type":"signal","n":N}   {"type":"end"}   end of input, a signal to the leader, end
//   of the run
//   {"type":"crash","how":"segv|abort|loop|sleep|fail"}           dies, hangs or fails in this hook
//   {"type":"done","status":"success|failed","summary":T}         the verdict, given at the end
//   {"type":"done",...,"details":J}               J, a JSON object as a text, becomes the verdict's details
// Anything else is provider.unknown with the raw record. stderr lines are stream.stderr.

#include <hitchrail/adapter.hpp>
#include <hitchrail/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace {

namespace sdk = hitchrail::sdk;
namespace json = hitchrail::sdk::json;

std::string quote(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out;
}

// The members of one record.
class Fields {
 public:
  explicit Fields(std::string_view record) : view_(json::valid(record) ? json::View(record) : json::View()) {}
  [[nodiscard]] bool is_object() const { return view_.is_object(); }
  [[nodiscard]] std::string text(std::string_view key) const { return view_.get(key).string(); }
  [[nodiscard]] std::uint32_t number(std::string_view key) const {
    return static_cast<std::uint32_t>(view_.get(key).count().value_or(0));
  }

 private:
  json::View view_;
};

void put_number(std::string& out, std::uint64_t value) {
  out += std::to_string(value) + ";";
}
void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}
std::uint64_t take_number(std::string_view& in) {
  std::uint64_t value = 0;
  std::size_t at = 0;
  for (; at < in.size() && in[at] != ';'; ++at) {
    value = value * 10 + static_cast<std::uint64_t>(in[at] - '0');
  }
  in.remove_prefix(at < in.size() ? at + 1 : at);
  return value;
}
std::string take_text(std::string_view& in) {
  const auto size = static_cast<std::size_t>(take_number(in));
  std::string text(in.substr(0, size));
  in.remove_prefix(text.size());
  return text;
}

constexpr std::uint32_t answer_timer = 1;

[[noreturn]] void crash(const std::string& how) {
  if (how == "segv") {
    // Not null: a sanitizer would answer that one by an exit.
    const volatile std::uintptr_t nowhere = 64;
    *reinterpret_cast<volatile int*>(nowhere) = 1;
  }
  if (how == "loop") {
    for (;;) {
      asm volatile("");  // an endless loop without effect may be removed
    }
  }
  if (how == "sleep") {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(3600));
    }
  }
  if (how == "fail") {
    throw sdk::Failure(HR_E_PROTOCOL, "script-failed", "the script asked for a failing hook");
  }
  std::abort();
}

class ScriptProbe : public sdk::Probe {
 public:
  explicit ScriptProbe(sdk::Host& host) { host.probe_command(1, {"--version"}); }

  void on_step(sdk::Host& host, const hr_probe_step_result& result) override {
    std::string_view line = sdk::view(result.stdout_bytes);
    line = line.substr(0, line.find('\n'));
    constexpr std::string_view prefix = "script-harness ";
    if (result.outcome != HR_STEP_EXITED || result.code != 0 || line.substr(0, prefix.size()) != prefix) {
      throw sdk::Failure(HR_E_PROTOCOL, "version-unknown",
                         "the program does not say `script-harness VERSION`");
    }
    const std::string version = quote(line.substr(prefix.size()));
    host.probe_result(R"({"providerVersion":)" + version +
                      R"(,"protocolVersion":"script/1","models":["script"],"capabilities":[)" +
                      capabilities() + "]}");
  }

 private:
  static std::string capabilities() {
    std::string out;
    for (const char* id :
         {"run.start", "run.stop", "run.status", "run.logs", "run.complete", "run.streaming",
          "run.structured-events", "run.steer", "run.approvals", "run.reattach", "workspace.worktrees"}) {
      out += (out.empty() ? "" : ",") + (R"({"id":")" + std::string(id)) +
             R"(","state":"supported","reason":"the scripted harness does it"})";
    }
    return out;
  }
};

class ScriptSession : public sdk::Session {
 public:
  ScriptSession() = default;
  explicit ScriptSession(std::string_view snapshot) {
    records_ = take_number(snapshot);
    status_ = take_text(snapshot);
    summary_ = take_text(snapshot);
    exit_kind_ = static_cast<std::uint32_t>(take_number(snapshot));
    exit_value_ = static_cast<std::int32_t>(take_number(snapshot));
    stopped_ = take_number(snapshot) != 0;
    details_ = take_text(snapshot);
  }

  [[nodiscard]] std::string snapshot(sdk::Host&) const override {
    std::string out;
    put_number(out, records_);
    put_text(out, status_);
    put_text(out, summary_);
    put_number(out, exit_kind_);
    put_number(out, static_cast<std::uint64_t>(static_cast<std::uint32_t>(exit_value_)));
    put_number(out, stopped_ ? 1 : 0);
    put_text(out, details_);
    return out;
  }

  void map_events(sdk::Host& host, const hr_record& record) override {
    ++records_;
    if (record.stream == HR_STREAM_STDERR) {
      emit(host, HR_EVENT_STREAM_STDERR, sdk::view(record.bytes), {}, {}, 0);
      return;
    }
    const Fields fields(sdk::view(record.bytes));
    if (!fields.is_object() || !known(host, fields)) {
      emit(host, HR_EVENT_PROVIDER_UNKNOWN, {}, {}, {}, HR_EVENT_RAW_RECORD);
    }
  }

  void on_exit(sdk::Host&, const hr_exit& exit) override {
    exit_kind_ = exit.kind;
    exit_value_ = exit.value;
    stopped_ = exit.stop_request != 0;
  }

  void on_end(sdk::Host& host) override {
    auto verdict = sdk::make<hr_verdict>();
    const std::string details =
        details_.empty() ? "{\"records\":" + std::to_string(records_) + "}" : details_;
    verdict.details_json = sdk::str(details);
    verdict.summary = sdk::str(summary_);
    verdict.status = HR_VERDICT_SUCCESS;
    if (status_.empty()) {
      verdict.status = stopped_ ? HR_VERDICT_INTERRUPTED : HR_VERDICT_FAILED;
      verdict.code = sdk::str("no-terminal-record");
      verdict.error = sdk::str("the harness ended without its last record");
    } else if (status_ != "success" || exit_kind_ != HR_EXIT_CODE || exit_value_ != 0) {
      verdict.status = HR_VERDICT_FAILED;
      verdict.code = sdk::str("script-failed");
      verdict.error = sdk::str("the script ended in failure");
    }
    host.finish(verdict);
  }

  void control(sdk::Host& host, const hr_control& control) override {
    if (control.kind == HR_CONTROL_STEER) {
      host.send("steer " + std::string(sdk::view(control.text)) + "\n");
      host.control_result(control.control_id, HR_CONTROL_DELIVERED);
      emit(host, HR_EVENT_CONVERSATION_STEERED, sdk::view(control.text), {}, {}, 0);
    } else if (control.kind == HR_CONTROL_SHUTDOWN) {
      host.send("shutdown\n");
      host.control_result(control.control_id, HR_CONTROL_DELIVERED);
    } else {
      host.control_result(control.control_id, HR_CONTROL_IMPOSSIBLE, "a script cannot do that");
    }
  }

  void on_decision(sdk::Host& host, const hr_decision& decision) override {
    static constexpr const char* names[] = {"none", "allow-once", "deny", "cancelled", "allow-session"};
    host.send("decision " + std::string(decision.decision < 5 ? names[decision.decision] : "unknown") + "\n");
  }

  void on_call_result(sdk::Host& host, const hr_call_result& result) override {
    const char* outcome = result.outcome == HR_CALL_OK        ? "ok"
                          : result.outcome == HR_CALL_REFUSED ? "refused"
                                                              : "failed";
    host.send("called " + std::to_string(result.call_id) + " " + outcome + "\n");
    auto event = sdk::make<hr_event>();
    event.kind = HR_EVENT_NAMED;
    event.kind_name = sdk::str("script.called");
    event.text = sdk::str(outcome);
    host.emit(event);
  }

  void on_timer(sdk::Host& host, std::uint32_t) override {
    auto event = sdk::make<hr_event>();
    event.kind = HR_EVENT_NAMED;
    event.kind_name = sdk::str("script.timer");
    host.emit(event);
    host.send("timer\n");
  }

 private:
  static void emit(sdk::Host& host, std::uint32_t kind, std::string_view text, std::string_view item,
                   std::string_view type, std::uint32_t flags) {
    auto event = sdk::make<hr_event>();
    event.kind = kind;
    event.flags = flags;
    event.provider_type = sdk::str(type);
    event.item_id = sdk::str(item);
    event.text = sdk::str(text);
    host.emit(event);
  }

  bool known(sdk::Host& host, const Fields& fields) {
    const std::string type = fields.text("type");
    if (type == "delta") {
      emit(host, HR_EVENT_MESSAGE_DELTA, fields.text("text"), fields.text("item"), type, HR_EVENT_MERGEABLE);
    } else if (type == "message") {
      emit(host, HR_EVENT_MESSAGE_ASSISTANT, fields.text("text"), {}, type, HR_EVENT_RAW_RECORD);
    } else if (type == "ask") {
      emit(host, HR_EVENT_PROGRESS, {}, {}, type, HR_EVENT_RAW_RECORD);
      host.send("answer " + std::to_string(fields.number("id")) + "\n");
    } else if (type == "done") {
      status_ = fields.text("status");
      summary_ = fields.text("summary");
      details_ = fields.text("details");
      emit(host, HR_EVENT_MESSAGE_ASSISTANT, summary_, {}, type, HR_EVENT_RAW_RECORD);
    } else {
      return acts(host, type, fields);
    }
    return true;
  }

  static bool acts(sdk::Host& host, const std::string& type, const Fields& fields) {
    if (type == "approve") {
      auto approval = sdk::make<hr_approval>();
      const std::string id = fields.text("id");
      const std::string action = R"({"do":)" + quote(id) + "}";
      approval.kind = 1;
      approval.approval_id = sdk::str(id);
      approval.action_json = sdk::str(action);
      host.request_approval(approval);
    } else if (type == "call") {
      (void)host.call_service("hitchrail.fs/1", "read_text_file", R"({"path":"x"})");
    } else if (type == "timer") {
      host.set_timer(answer_timer, fields.number("ms"));
    } else if (type == "thread") {
      host.set_conversation(fields.text("id"));
      emit(host, HR_EVENT_CONVERSATION_STARTED, {}, {}, type, 0);
    } else if (type == "turn") {
      host.set_turn(fields.text("id"));
    } else if (type == "close") {
      host.close_input();
    } else if (type == "signal") {
      host.signal_leader(static_cast<std::int32_t>(fields.number("n")));
    } else if (type == "end") {
      host.end_run();
    } else if (type == "crash") {
      crash(fields.text("how"));
    } else {
      return false;
    }
    return true;
  }

  std::uint64_t records_ = 0;
  std::string status_, summary_, details_;
  std::uint32_t exit_kind_ = 0;
  std::int32_t exit_value_ = 0;
  bool stopped_ = false;
};

struct Script {
  static std::unique_ptr<sdk::Probe> probe(sdk::Host& host, const hr_probe_request&) {
    return std::make_unique<ScriptProbe>(host);
  }
  // The operator's message is the script.
  static std::string render(sdk::Host&, const hr_render_request& request) {
    const json::View envelope = json::valid(sdk::view(request.envelope_json))
                                    ? json::View(sdk::view(request.envelope_json))
                                    : json::View();
    return envelope.get("subject").get("message").string();
  }
  static std::unique_ptr<sdk::Session> launch(sdk::Host& host, const hr_launch_request& request) {
    sdk::Plan plan;
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_FAIL);
    plan.stream(HR_STREAM_STDERR, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 64u << 10);
    plan.env_from_host("PATH").env_from_host("SCRIPT_SECRET").env_home("HOME");
    plan.input(sdk::view(request.request_text)).input("\nend\n");
    plan.stop_close_input(500).stop_signal(15, 1000);
    host.plan(plan);
    return std::make_unique<ScriptSession>();
  }
  static std::unique_ptr<sdk::Session> reattach(sdk::Host&, const hr_reattach& request) {
    return std::make_unique<ScriptSession>(sdk::view(request.snapshot));
  }
};

}  // namespace

HITCHRAIL_ADAPTER(Script, "script", "Scripted harness", "1.0.0");
