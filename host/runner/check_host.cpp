#include "runner/check_host.hpp"

#include <csignal>
#include <cstring>
#include <set>

#include "core/json.hpp"
#include "core/text.hpp"
#include "runner/checks.hpp"

namespace hitchrail::runner {

using plugins::Hook;
using plugins::hook_bit;

namespace {

constexpr std::uint32_t probe_hooks = hook_bit(Hook::probe) | hook_bit(Hook::on_probe_step);
constexpr std::uint32_t session_hooks = hook_bit(Hook::map_events) | hook_bit(Hook::on_exit) |
                                        hook_bit(Hook::on_end) | hook_bit(Hook::control) |
                                        hook_bit(Hook::on_decision) | hook_bit(Hook::on_call_result) |
                                        hook_bit(Hook::on_timer) | hook_bit(Hook::on_transport);
constexpr std::size_t max_path = 4096;
constexpr std::size_t max_argument = 128u << 10;
constexpr std::size_t max_file_streams = 6;

bool relative_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.size() > max_path ||
      path.find('\0') != std::string_view::npos) {
    return false;
  }
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

bool variable_name(std::string_view name) {
  if (name.empty() || name.size() > 80 || (name[0] >= '0' && name[0] <= '9')) {
    return false;
  }
  return name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == std::string_view::npos;
}

// Collects a plan's faults; the first one is reported.
struct PlanJudge {
  std::string fault;
  std::string text;       // everything in it, for the transcript
  std::string arguments;  // what `ps` and /proc/PID/environ would show

  void check(bool good, const std::string& what) {
    if (!good && fault.empty()) {
      fault = what;
    }
  }
  std::string_view take_str(hr_str in, const char* what) {
    std::string_view out;
    check(take(in, out), std::string(what) + " is a null pointer with a size");
    text += what;
    text += '=';
    text += out;
    text += '\n';
    return out;
  }
  void parts(const hr_part* list, std::size_t count, const char* what) {
    check(count == 0 || list != nullptr, std::string(what) + " is a null pointer with a count");
    for (std::size_t i = 0; list != nullptr && i < count; ++i) {
      const std::string_view bytes = take_str(list[i].bytes, what);
      check(list[i].kind == HR_PART_BYTES || list[i].kind == HR_PART_SECRET,
            std::string(what) + " has an unknown kind");
      check(list[i].kind != HR_PART_SECRET || variable_name(bytes),
            std::string(what) + " names a secret that is no credential's name");
      check(list[i].encoding <= HR_ENCODE_BASE64, std::string(what) + " has an unknown encoding");
    }
  }
  void argv(const hr_plan& plan) {
    check(plan.argc <= HR_MAX_ARGV, "more than 256 arguments");
    check(plan.argc == 0 || plan.argv != nullptr, "argv is a null pointer with a count");
    for (std::size_t i = 0; plan.argv != nullptr && i < plan.argc && i < HR_MAX_ARGV; ++i) {
      const std::string_view argument = take_str(plan.argv[i], "argument");
      check(argument.find('\0') == std::string_view::npos && argument.size() < max_argument,
            "an argument with a NUL or of 128 KiB");
      arguments.append(argument).push_back('\n');
    }
  }
  void env(const hr_plan& plan) {
    check(plan.env_count == 0 || plan.env != nullptr, "env is a null pointer with a count");
    std::set<std::string_view> names;
    for (std::size_t i = 0; plan.env != nullptr && i < plan.env_count; ++i) {
      const std::string_view name = take_str(plan.env[i].name, "variable");
      const std::string_view value = take_str(plan.env[i].value, "value");
      check(variable_name(name), "a variable's name is not ^[A-Z_][A-Z0-9_]*$");
      check(names.insert(name).second, "the variable " + std::string(name) + " twice");
      check(plan.env[i].source >= HR_ENV_FROM_HOST && plan.env[i].source <= HR_ENV_HOME,
            "a variable of an unknown source");
      check(value.find('\0') == std::string_view::npos, "a variable's value with a NUL");
      arguments.append(value).push_back('\n');
    }
  }
  void streams(const hr_plan& plan) {
    check(plan.stream_count == 0 || plan.streams != nullptr, "streams is a null pointer with a count");
    std::set<std::uint32_t> seen;
    for (std::size_t i = 0; plan.streams != nullptr && i < plan.stream_count; ++i) {
      const hr_stream_spec& spec = plan.streams[i];
      check(spec.stream >= HR_STREAM_STDOUT && spec.stream <= HR_STREAM_TRANSPORT,
            "a stream that is not stdout, stderr or transport");
      check(seen.insert(spec.stream).second, "a stream twice");
      check(spec.framing >= HR_FRAME_LINES && spec.framing <= HR_FRAME_MESSAGES, "an unknown framing");
      check(spec.overflow == HR_OVERFLOW_FAIL || spec.overflow == HR_OVERFLOW_TRUNCATE,
            "an unknown overflow");
      check(spec.record_cap <= HR_MAX_RECORD_CAP, "a record cap over 16 MiB");
      text += "stream " + std::to_string(spec.stream) + " " + std::to_string(spec.framing) + " " +
              std::to_string(spec.overflow) + " " + std::to_string(spec.record_cap) + "\n";
    }
    check(plan.file_stream_count <= max_file_streams, "more than six file streams");
    check(plan.file_stream_count == 0 || plan.file_streams != nullptr,
          "file_streams is a null pointer with a count");
    for (std::size_t i = 0;
         plan.file_streams != nullptr && i < plan.file_stream_count && i < max_file_streams; ++i) {
      const hr_file_stream& spec = plan.file_streams[i];
      check(spec.stream == HR_STREAM_FILE_FIRST + i, "file streams that are not numbered 8, 9, ...");
      check(spec.framing >= HR_FRAME_LINES && spec.framing <= HR_FRAME_CONTENT_LENGTH,
            "a file stream of an unknown framing");
      check(relative_path(take_str(spec.pattern, "pattern")),
            "a file pattern that is not a plain relative path");
    }
  }
  void rest(const hr_plan& plan) {
    parts(plan.initial_input, plan.initial_input_count, "initial input");
    check(plan.stop_count == 0 || plan.stop != nullptr, "stop is a null pointer with a count");
    for (std::size_t i = 0; plan.stop != nullptr && i < plan.stop_count; ++i) {
      const hr_stop_step& step = plan.stop[i];
      check(step.kind >= HR_STOP_SEND && step.kind <= HR_STOP_SIGNAL, "a stop step of an unknown kind");
      check(step.kind != HR_STOP_SIGNAL || (step.signal > 0 && step.signal < SIGRTMAX),
            "a stop step with an unknown signal");
      parts(step.parts, step.part_count, "stop input");
      text += "stop " + std::to_string(step.kind) + " " + std::to_string(step.wait_ms) + "\n";
    }
    check(plan.home_file_count == 0 || plan.home_files != nullptr,
          "home_files is a null pointer with a count");
    for (std::size_t i = 0; plan.home_files != nullptr && i < plan.home_file_count; ++i) {
      check(relative_path(take_str(plan.home_files[i].path, "home file")),
            "a home file whose path is not plain and relative");
      take_str(plan.home_files[i].bytes, "content");
    }
    check(plan.transport == HR_TRANSPORT_STDIO || plan.transport == HR_TRANSPORT_WEBSOCKET,
          "an unknown transport");
    const std::string_view endpoint = take_str(plan.endpoint, "endpoint");
    check((plan.transport == HR_TRANSPORT_WEBSOCKET) == !endpoint.empty(),
          "an endpoint without a transport, or none for it");
    text += "flags " + std::to_string(plan.flags) + "\n";
  }
};

}  // namespace

// The callbacks. Each notes itself, and refuses what the live host refuses.
struct CheckCalls {
  static CheckHost& of(void* ctx) { return *static_cast<CheckHost*>(ctx); }

  static bool allowed(CheckHost& self, std::uint32_t hooks, const char* name) {
    if ((hook_bit(self.hook_) & hooks) != 0) {
      return true;
    }
    note_fault(self, std::string(name) + " is not allowed in " + plugins::hook_name(self.hook_));
    self.transcript_ += std::string(name) + " (refused)\n";
    return false;
  }
  static void note_fault(CheckHost& self, std::string text) {
    if (self.fault_.empty()) {
      self.fault_ = std::move(text);
    }
  }
  static hr_result bad(CheckHost& self, const char* name, const std::string& what) {
    note_fault(self, std::string(name) + ": " + what);
    return HR_E_ARGUMENT;
  }
  static void say(CheckHost& self, std::string_view text) {
    self.transcript_ += text;
    self.transcript_ += '\n';
  }
  // One string argument that must be UTF-8.
  static bool text_of(hr_str in, std::string_view& out) { return take(in, out) && is_valid_utf8(out); }

  static void log(void*, std::uint32_t, hr_str) {}
  static void fail(void* ctx, hr_str code, hr_str text) {
    CheckHost& self = of(ctx);
    Reason reason;
    reason.set(code, text);
    if (self.fail_code_.empty() && self.fail_text_.empty()) {
      self.fail_code_ = reason.code;
      self.fail_text_ = reason.text;
    }
  }
  static std::int64_t now_ms(void*) { return 1'700'000'000'000; }
  static void random(void* ctx, void* out, std::size_t size) {
    CheckHost& self = of(ctx);
    if (allowed(self, hook_bit(Hook::launch), "random") && out != nullptr) {
      std::memset(out, 0x5a, size);
    }
  }
  static const void* extension(void*, hr_str) { return nullptr; }

  static hr_result probe_step(void* ctx, const hr_probe_step* in) {
    CheckHost& self = of(ctx);
    hr_probe_step step;
    if (!allowed(self, probe_hooks, "probe_step")) {
      return HR_E_STATE;
    }
    if (!read_struct(in, step) || (step.kind != HR_STEP_COMMAND && step.kind != HR_STEP_DIALOGUE) ||
        step.argc > HR_MAX_ARGV || (step.argc != 0 && step.argv == nullptr)) {
      return bad(self, "probe_step", "unknown kind, or argv out of bounds");
    }
    self.steps_.push_back(step.step_id);
    return HR_OK;
  }
  static hr_result probe_result(void* ctx, hr_str json) {
    CheckHost& self = of(ctx);
    std::string_view text;
    if (!allowed(self, probe_hooks, "probe_result")) {
      return HR_E_STATE;
    }
    if (!text_of(json, text)) {
      return bad(self, "probe_result", "not UTF-8");
    }
    self.results_.emplace_back(text);
    return HR_OK;
  }
  static hr_result rendered(void* ctx, hr_str in) {
    CheckHost& self = of(ctx);
    std::string_view text;
    if (!allowed(self, hook_bit(Hook::render), "rendered")) {
      return HR_E_STATE;
    }
    if (!text_of(in, text)) {
      return bad(self, "rendered", "not UTF-8");
    }
    self.texts_.emplace_back(text);
    return HR_OK;
  }
  static hr_result plan(void* ctx, const hr_plan* in) {
    CheckHost& self = of(ctx);
    hr_plan plan;
    if (!allowed(self, hook_bit(Hook::launch), "plan")) {
      return HR_E_STATE;
    }
    ++self.plans_;
    if (!read_struct(in, plan)) {
      return bad(self, "plan", "a null pointer, or a struct_size that cannot be");
    }
    PlanJudge judge;
    judge.argv(plan);
    judge.env(plan);
    judge.streams(plan);
    judge.rest(plan);
    say(self, "plan " + judge.text);
    self.arguments_ += judge.arguments;
    return judge.fault.empty() ? HR_OK : bad(self, "plan", judge.fault);
  }
  static hr_result emit(void* ctx, const hr_event* in) {
    CheckHost& self = of(ctx);
    hr_event event;
    if (!allowed(self, session_hooks, "emit")) {
      return HR_E_STATE;
    }
    if (!read_struct(in, event) || event.kind >= HR_EVENT_KIND_COUNT) {
      return bad(self, "emit", "an unknown event kind, or a struct_size that cannot be");
    }
    std::string line = "emit " + std::to_string(event.kind) + " " + std::to_string(event.flags);
    for (const hr_str field :
         {event.kind_name, event.provider_type, event.item_id, event.turn_id, event.provider_event_id,
          event.parent_event_id, event.provider_timestamp, event.summary, event.text, event.fields_json}) {
      std::string_view text;
      if (!text_of(field, text)) {
        return bad(self, "emit", "a string that is not UTF-8");
      }
      line.append("|").append(text);
    }
    say(self, line);
    std::string_view name;
    std::string_view fields;
    take(event.kind_name, name);
    take(event.fields_json, fields);
    if (event.kind == HR_EVENT_NAMED && (!is_kind_name(name) || is_host_kind(name))) {
      return bad(
          self, "emit",
          "the kind name \"" + std::string(name.substr(0, 120)) + "\" is not namespaced or is the host's");
    }
    if (!fields.empty() && !is_json_object(fields)) {
      return bad(self, "emit", "fields_json is not one JSON object");
    }
    if ((event.flags & HR_EVENT_RAW_RECORD) != 0 && self.hook_ != Hook::map_events) {
      return bad(self, "emit", "HR_EVENT_RAW_RECORD outside map_events");
    }
    return HR_OK;
  }
  static hr_result send(void* ctx, const hr_part* parts, std::size_t count) {
    CheckHost& self = of(ctx);
    if (!allowed(self, session_hooks, "send")) {
      return HR_E_STATE;
    }
    PlanJudge judge;
    judge.parts(parts, count, "send");
    say(self, "send " + judge.text);
    return judge.fault.empty() ? HR_OK : bad(self, "send", judge.fault);
  }
  static hr_result close_input(void* ctx) { return plain(of(ctx), "close_input"); }
  static hr_result end_run(void* ctx) { return plain(of(ctx), "end_run"); }
  static hr_result plain(CheckHost& self, const char* name) {
    if (!allowed(self, session_hooks, name)) {
      return HR_E_STATE;
    }
    say(self, name);
    return HR_OK;
  }
  static hr_result signal_leader(void* ctx, std::int32_t signal) {
    CheckHost& self = of(ctx);
    if (!allowed(self, session_hooks, "signal_leader")) {
      return HR_E_STATE;
    }
    say(self, "signal_leader " + std::to_string(signal));
    const bool known =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2;
    return known ? HR_OK : bad(self, "signal_leader", "signal " + std::to_string(signal));
  }
  static hr_result request_approval(void* ctx, const hr_approval* in) {
    CheckHost& self = of(ctx);
    hr_approval approval;
    std::string_view id;
    std::string_view action;
    if (!allowed(self, session_hooks, "request_approval")) {
      return HR_E_STATE;
    }
    if (!read_struct(in, approval) || !text_of(approval.approval_id, id) || id.empty() ||
        !text_of(approval.action_json, action) || !is_json_object(action)) {
      return bad(self, "request_approval", "without an id or an action object");
    }
    say(self, "request_approval " + std::string(id) + " " + std::string(action));
    return HR_OK;
  }
  static hr_result one_text(CheckHost& self, const char* name, hr_str in) {
    std::string_view text;
    if (!allowed(self, session_hooks, name)) {
      return HR_E_STATE;
    }
    if (!text_of(in, text) || text.empty()) {
      return bad(self, name, "empty, or not UTF-8");
    }
    say(self, std::string(name) + " " + std::string(text));
    return HR_OK;
  }
  static hr_result withdraw_approval(void* ctx, hr_str id) {
    return one_text(of(ctx), "withdraw_approval", id);
  }
  static hr_result set_conversation(void* ctx, hr_str id) {
    return one_text(of(ctx), "set_conversation", id);
  }
  static hr_result set_turn(void* ctx, hr_str id) { return one_text(of(ctx), "set_turn", id); }
  static hr_result control_result(void* ctx, std::uint64_t id, std::uint32_t outcome, hr_str detail) {
    CheckHost& self = of(ctx);
    std::string_view text;
    if (!allowed(self, session_hooks, "control_result")) {
      return HR_E_STATE;
    }
    if (outcome < HR_CONTROL_DELIVERED || outcome > HR_CONTROL_IMPOSSIBLE || !text_of(detail, text)) {
      return bad(self, "control_result", "an unknown outcome, or a detail that is not UTF-8");
    }
    say(self,
        "control_result " + std::to_string(id) + " " + std::to_string(outcome) + " " + std::string(text));
    return HR_OK;
  }
  static hr_result call_service(void* ctx, hr_str service, hr_str method, hr_str params, std::uint64_t* id) {
    CheckHost& self = of(ctx);
    std::string_view names[3];
    if (!allowed(self, session_hooks, "call_service")) {
      return HR_E_STATE;
    }
    if (!text_of(service, names[0]) || !text_of(method, names[1]) || !text_of(params, names[2]) ||
        id == nullptr) {
      return bad(self, "call_service", "a name that is not UTF-8, or no place for the call's id");
    }
    say(self,
        "call_service " + std::string(names[0]) + " " + std::string(names[1]) + " " + std::string(names[2]));
    *id = self.next_call_++;
    return HR_OK;
  }
  static hr_result set_timer(void* ctx, std::uint32_t id, std::uint32_t after_ms) {
    CheckHost& self = of(ctx);
    if (!allowed(self, session_hooks | hook_bit(Hook::launch), "set_timer")) {
      return HR_E_STATE;
    }
    say(self, "set_timer " + std::to_string(id) + " " + std::to_string(after_ms));
    return HR_OK;
  }
  static hr_result cancel_timer(void* ctx, std::uint32_t id) {
    CheckHost& self = of(ctx);
    if (!allowed(self, session_hooks, "cancel_timer")) {
      return HR_E_STATE;
    }
    say(self, "cancel_timer " + std::to_string(id));
    return HR_OK;
  }
  static hr_result finish(void* ctx, const hr_verdict* in) {
    CheckHost& self = of(ctx);
    hr_verdict verdict;
    if (!allowed(self, hook_bit(Hook::on_end), "finish")) {
      return HR_E_STATE;
    }
    ++self.verdicts_;
    if (!read_struct(in, verdict) || verdict.status < HR_VERDICT_SUCCESS ||
        verdict.status > HR_VERDICT_PARTIAL) {
      return bad(self, "finish", "an unknown status, or a struct_size that cannot be");
    }
    std::string line = "finish " + std::to_string(verdict.status);
    for (const hr_str field : {verdict.code, verdict.summary, verdict.error, verdict.continuation_kind,
                               verdict.continuation_reference, verdict.details_json}) {
      std::string_view text;
      if (!text_of(field, text)) {
        return bad(self, "finish", "a string that is not UTF-8");
      }
      line.append("|").append(text);
    }
    say(self, line);
    std::string_view code;
    std::string_view details;
    take(verdict.code, code);
    take(verdict.details_json, details);
    if (verdict.status == HR_VERDICT_FAILED && verdict.error.size == 0) {
      return bad(self, "finish", "a failed verdict without an error");
    }
    if (!code.empty() && !is_kebab(code)) {
      return bad(self, "finish", "a code that is not kebab-case");
    }
    return details.empty() || is_json_object(details)
               ? HR_OK
               : bad(self, "finish", "details_json is not one JSON object");
  }
  static hr_result snapshot_bytes(void* ctx, hr_str bytes) {
    CheckHost& self = of(ctx);
    std::string_view text;
    if (!allowed(self, hook_bit(Hook::snapshot), "snapshot_bytes")) {
      return HR_E_STATE;
    }
    if (!take(bytes, text) || text.size() > HR_MAX_SNAPSHOT) {
      note_fault(self, "snapshot_bytes: over 1 MiB, or a null pointer with a size");
      return HR_E_LIMIT;
    }
    self.snapshots_.emplace_back(text);
    return HR_OK;
  }
};

CheckHost::CheckHost() : host_{} {
  using C = CheckCalls;
  host_ = {sizeof(hr_host),
           HR_ABI_MINOR,
           this,
           C::log,
           C::fail,
           C::now_ms,
           C::random,
           C::extension,
           C::probe_step,
           C::probe_result,
           C::rendered,
           C::plan,
           C::emit,
           C::send,
           C::close_input,
           C::signal_leader,
           C::request_approval,
           C::withdraw_approval,
           C::control_result,
           C::set_conversation,
           C::set_turn,
           C::call_service,
           C::set_timer,
           C::cancel_timer,
           C::finish,
           C::snapshot_bytes,
           C::end_run};
}

void CheckHost::begin(Hook hook) {
  hook_ = hook;
  for (std::string* text : {&transcript_, &fault_, &fail_code_, &fail_text_, &arguments_}) {
    text->clear();
  }
  steps_.clear();
  for (std::vector<std::string>* list : {&results_, &texts_, &snapshots_}) {
    list->clear();
  }
  plans_ = 0;
  verdicts_ = 0;
}

std::string CheckHost::reason() const {
  return fail_code_.empty() && fail_text_.empty() ? "" : " (" + fail_code_ + ": " + fail_text_ + ")";
}

}  // namespace hitchrail::runner
