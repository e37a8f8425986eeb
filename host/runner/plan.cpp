#include "runner/plan.hpp"

#include <hitchrail/adapter.h>
#include <malloc.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "plugins/elf.hpp"
#include "plugins/plan_wire.hpp"
#include "runner/checks.hpp"
#include "runner/confine.hpp"
#include "runner/load.hpp"

namespace hitchrail::runner {

namespace {

using plugins::LaunchPlan;
using plugins::Part;

constexpr std::size_t max_logs = 64;  // of one hook
constexpr std::size_t max_log_line = 4096;
constexpr std::size_t max_steps = 32;  // of one hook
constexpr std::size_t max_result = 1u << 20;
constexpr std::size_t max_text = 16u << 20;  // of a rendered request
constexpr std::size_t max_list = 4096;       // elements of any array of a plan; the host's check is tighter

// One adapter, no session of a run: probe, render, launch.
class PlanHost {
 public:
  explicit PlanHost(const hr_adapter& adapter) : adapter_(adapter), host_(refusing_host(this)) {
    host_.log = log;
    host_.fail = fail;
    host_.now_ms = now_ms;
    host_.random = random;
    host_.probe_step = probe_step;
    host_.probe_result = probe_result;
    host_.rendered = rendered;
    host_.plan = plan;
    host_.set_timer = set_timer;
    host_.snapshot_bytes = snapshot_bytes;
  }
  PlanHost(const PlanHost&) = delete;
  PlanHost& operator=(const PlanHost&) = delete;
  ~PlanHost() { close_probe(); }

  json::Value answer(const json::Value& request) {
    json::Value reply = json::Value::object();
    const Status status = dispatch(request, reply);
    if (status.has_error()) {
      reply = json::Value::object();
      reply.set("error", plugins::to_value(status.error()));
    }
    json::Value lines = json::Value::array();
    for (auto& line : std::exchange(logs_, {})) {
      lines.push(std::move(line));
    }
    reply.set("logs", std::move(lines));
    return reply;
  }

 private:
  enum class Phase { none, probe, render, launch, snapshot };

  Status dispatch(const json::Value& request, json::Value& reply) {
    const std::string& op = request.get("op").as_string();
    if (op == "probe") {
      return do_probe(request.get("request").as_string(), reply);
    }
    if (op == "probe_step") {
      HR_TRY(result, plugins::probe_step_result_from(request.get("result")));
      return do_probe_step(result, reply);
    }
    const auto mode = static_cast<std::uint32_t>(request.get("mode").as_int().value_or(0));
    if (op == "render") {
      return do_render(request, mode, reply);
    }
    if (op == "launch") {
      HR_TRY(text, plugins::base64_decode(request.get("requestText").as_string()));
      return do_launch(request.get("launch").as_string(), mode, text, reply);
    }
    return Error{ErrorClass::internal, "adapter-protocol", "plan", op, "an unknown request", ""};
  }

  template <class F>
  Status run(const char* name, Phase phase, F&& body) {
    reason_ = {};
    phase_ = phase;
    const hr_result result = body();
    phase_ = Phase::none;
    return result == HR_OK ? Status() : Status(hook_error(name, result, reason_, true));
  }
  static Error missing(const char* hook, const char* callback) {
    Reason reason;
    reason.text = std::string(callback) + " was not called";
    return hook_error(hook, HR_E_INTERNAL, reason, false);
  }

  void close_probe() {
    if (probe_ != nullptr) {
      adapter_.probe_close(probe_);
      probe_ = nullptr;
    }
  }

  Status probe_reply(json::Value& reply, const char* hook) {
    json::Value steps = json::Value::array();
    waiting_ += steps_.size();
    for (const auto& step : steps_) {
      steps.push(plugins::to_value(step));
    }
    steps_.clear();
    reply.set("steps", std::move(steps));
    if (result_) {
      reply.set("result", *result_);
      has_result_ = true;
      result_.reset();
    }
    if (waiting_ == 0 && !has_result_) {
      return missing(hook, "probe_result");
    }
    return {};
  }

  Status do_probe(const std::string& text, json::Value& reply) {
    close_probe();
    steps_.clear();
    result_.reset();
    waiting_ = 0;
    has_result_ = false;
    hr_probe_request request{};
    request.struct_size = sizeof(request);
    request.request_json = str(text);
    HR_CHECK(run("probe", Phase::probe, [&] { return adapter_.probe(&host_, &request, &probe_); }));
    if (probe_ == nullptr) {
      return missing("probe", "probe made no object, so it");
    }
    return probe_reply(reply, "probe");
  }

  Status do_probe_step(const plugins::ProbeStepResult& in, json::Value& reply) {
    if (probe_ == nullptr || waiting_ == 0) {
      return Error{ErrorClass::internal,
                   "adapter-protocol",
                   "on_probe_step",
                   "plan",
                   "no step waits for a result",
                   ""};
    }
    --waiting_;
    hr_probe_step_result result{};
    result.struct_size = sizeof(result);
    result.step_id = in.step_id;
    result.outcome = in.outcome;
    result.code = in.code;
    result.stdout_truncated = in.stdout_truncated ? 1 : 0;
    result.stderr_truncated = in.stderr_truncated ? 1 : 0;
    result.stdout_bytes = str(in.stdout_bytes);
    result.stderr_bytes = str(in.stderr_bytes);
    HR_CHECK(
        run("on_probe_step", Phase::probe, [&] { return adapter_.on_probe_step(&host_, probe_, &result); }));
    return probe_reply(reply, "on_probe_step");
  }

  Status do_render(const json::Value& in, std::uint32_t mode, json::Value& reply) {
    rendered_.reset();
    hr_render_request request{};
    request.struct_size = sizeof(request);
    request.mode = mode;
    request.envelope_json = str(in.get("envelope").as_string());
    request.context_json = str(in.get("context").as_string());
    HR_CHECK(run("render", Phase::render, [&] { return adapter_.render(&host_, &request); }));
    if (!rendered_) {
      return missing("render", "rendered");
    }
    reply.set("text", base64_encode(*rendered_));
    rendered_.reset();
    return {};
  }

  Status do_launch(const std::string& launch, std::uint32_t mode, const std::string& text,
                   json::Value& reply) {
    plan_.reset();
    timers_.clear();
    snapshot_.reset();
    hr_launch_request request{};
    request.struct_size = sizeof(request);
    request.mode = mode;
    request.launch_json = str(launch);
    request.request_text = str(text);
    hr_session* session = nullptr;
    HR_CHECK(run("launch", Phase::launch, [&] { return adapter_.launch(&host_, &request, &session); }));
    if (!plan_ || session == nullptr) {
      return missing("launch", "plan");
    }
    const Status taken = run("snapshot", Phase::snapshot, [&] { return adapter_.snapshot(&host_, session); });
    adapter_.close(session);
    HR_CHECK(taken);
    if (!snapshot_) {
      return missing("snapshot", "snapshot_bytes");
    }
    plan_->timers = timers_;
    reply.set("plan", plugins::to_value(*plan_));
    reply.set("snapshot", base64_encode(*snapshot_));
    return {};
  }

  // ---- callbacks ----
  static PlanHost& of(void* ctx) { return *static_cast<PlanHost*>(ctx); }

  static void log(void* ctx, std::uint32_t level, hr_str text) {
    PlanHost& self = of(ctx);
    std::string_view line;
    if (self.phase_ == Phase::none || !take(text, line) || self.logs_.size() >= max_logs) {
      return;
    }
    const char* name = level >= HR_LOG_WARNING ? "warning " : level == HR_LOG_INFO ? "info " : "debug ";
    self.logs_.push_back(name + cut_utf8(line, max_log_line));
  }
  static void fail(void* ctx, hr_str code, hr_str text) {
    PlanHost& self = of(ctx);
    if (self.phase_ != Phase::none) {
      self.reason_.set(code, text);
    }
  }
  static std::int64_t now_ms(void* ctx) {
    const Phase phase = of(ctx).phase_;
    return phase == Phase::probe || phase == Phase::launch ? unix_millis_now() : 0;
  }
  static void random(void* ctx, void* out, std::size_t size) {
    if (of(ctx).phase_ == Phase::launch && out != nullptr) {
      random_bytes(out, size);
    }
  }
  static hr_result probe_step(void* ctx, const hr_probe_step* in);
  static hr_result probe_result(void* ctx, hr_str text);
  static hr_result rendered(void* ctx, hr_str text);
  static hr_result plan(void* ctx, const hr_plan* in);
  static hr_result set_timer(void* ctx, std::uint32_t timer_id, std::uint32_t after_ms);
  static hr_result snapshot_bytes(void* ctx, hr_str bytes);

  hr_adapter adapter_;
  hr_host host_;
  Phase phase_ = Phase::none;
  Reason reason_;
  std::vector<std::string> logs_;
  hr_probe* probe_ = nullptr;
  std::vector<plugins::ProbeStep> steps_;
  std::size_t waiting_ = 0;  // steps whose result has not come
  std::optional<std::string> result_;
  bool has_result_ = false;
  std::optional<std::string> rendered_;
  std::optional<LaunchPlan> plan_;
  std::vector<plugins::TimerPlan> timers_;
  std::optional<std::string> snapshot_;
};

// ---- copying what an adapter hands over; false for a null pointer with a size ----

bool copy(hr_str in, std::string& out) {
  std::string_view view;
  if (!take(in, view)) {
    return false;
  }
  out = view;
  return true;
}

template <class T, class F>
bool copy_list(const T* items, std::size_t count, F&& each) {
  if (count > max_list || (items == nullptr && count != 0)) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!each(items[i])) {
      return false;
    }
  }
  return true;
}

bool copy_parts(const hr_part* parts, std::size_t count, std::vector<Part>& out) {
  return copy_list(parts, count, [&](const hr_part& part) {
    out.push_back({part.kind, part.encoding, {}});
    return copy(part.bytes, out.back().bytes);
  });
}

bool copy_strings(const hr_str* items, std::size_t count, std::vector<std::string>& out) {
  return copy_list(items, count, [&](hr_str item) { return copy(item, out.emplace_back()); });
}

bool copy_plan(const hr_plan& in, LaunchPlan& out) {
  out.close_input = (in.flags & HR_PLAN_CLOSE_INPUT) != 0;
  out.needs_pipe = (in.flags & HR_PLAN_NEEDS_PIPE) != 0;
  out.transport = in.transport;
  const auto env = [&](const hr_env& item) {
    auto& entry = out.env.emplace_back();
    entry.source = item.source;
    return copy(item.name, entry.name) && copy(item.value, entry.value);
  };
  const auto stream = [&](const hr_stream_spec& item) {
    out.streams.push_back({item.stream, item.framing, item.overflow, item.record_cap});
    return true;
  };
  const auto stop = [&](const hr_stop_step& item) {
    auto& step = out.stop.emplace_back();
    step.kind = item.kind;
    step.signal = item.signal;
    step.wait_ms = item.wait_ms;
    return copy_parts(item.parts, item.part_count, step.parts);
  };
  const auto home = [&](const hr_home_file& item) {
    auto& file = out.home_files.emplace_back();
    return copy(item.path, file.path) && copy(item.bytes, file.bytes);
  };
  const auto files = [&](const hr_file_stream& item) {
    auto& file = out.file_streams.emplace_back();
    file.stream = item.stream;
    file.framing = item.framing;
    file.record_cap = item.record_cap;
    file.carry = (item.flags & HR_FILE_CARRY) != 0;
    return copy(item.pattern, file.pattern);
  };
  return copy_strings(in.argv, in.argc, out.argv) && copy_list(in.env, in.env_count, env) &&
         copy_list(in.streams, in.stream_count, stream) &&
         copy_parts(in.initial_input, in.initial_input_count, out.initial_input) &&
         copy_list(in.stop, in.stop_count, stop) && copy_list(in.home_files, in.home_file_count, home) &&
         copy_list(in.file_streams, in.file_stream_count, files) && copy(in.endpoint, out.endpoint);
}

hr_result PlanHost::probe_step(void* ctx, const hr_probe_step* in) {
  PlanHost& self = of(ctx);
  if (self.phase_ != Phase::probe) {
    return HR_E_STATE;
  }
  hr_probe_step raw;
  plugins::ProbeStep step;
  if (!read_struct(in, raw) || !copy_strings(raw.argv, raw.argc, step.argv) || !copy(raw.input, step.input)) {
    return HR_E_ARGUMENT;
  }
  step.kind = raw.kind;
  step.step_id = raw.step_id;
  step.timeout_ms = raw.timeout_ms;
  step.max_output = raw.max_output;
  step.stop_after_records = raw.stop_after_records;
  if (plugins::check_step(step).has_error()) {
    return HR_E_ARGUMENT;
  }
  if (self.steps_.size() >= max_steps) {
    return HR_E_LIMIT;
  }
  self.steps_.push_back(std::move(step));
  return HR_OK;
}

hr_result PlanHost::probe_result(void* ctx, hr_str text) {
  PlanHost& self = of(ctx);
  std::string_view view;
  if (self.phase_ != Phase::probe || self.result_ || self.has_result_) {
    return HR_E_STATE;
  }
  if (!take(text, view) || view.empty() || view.front() != '{' ||
      json::parse(view, json::Duplicates::refuse).has_error()) {
    return HR_E_ARGUMENT;
  }
  if (view.size() > max_result) {
    return HR_E_LIMIT;
  }
  self.result_ = std::string(view);
  return HR_OK;
}

hr_result PlanHost::rendered(void* ctx, hr_str text) {
  PlanHost& self = of(ctx);
  std::string_view view;
  if (self.phase_ != Phase::render || self.rendered_) {
    return HR_E_STATE;
  }
  if (!take(text, view)) {
    return HR_E_ARGUMENT;
  }
  if (view.size() > max_text) {
    return HR_E_LIMIT;
  }
  self.rendered_ = std::string(view);
  return HR_OK;
}

hr_result PlanHost::plan(void* ctx, const hr_plan* in) {
  PlanHost& self = of(ctx);
  if (self.phase_ != Phase::launch || self.plan_) {
    return HR_E_STATE;
  }
  hr_plan raw;
  LaunchPlan plan;
  if (!read_struct(in, raw) || !copy_plan(raw, plan)) {
    return HR_E_ARGUMENT;
  }
  if (const Status status = plugins::check_plan(plan); status.has_error()) {
    // The field at fault is the most useful thing the adapter's author can be told.
    self.reason_ = {};
    self.reason_.code = status.error().code;
    self.reason_.text = status.error().object + ": " + status.error().detail;
    return HR_E_ARGUMENT;
  }
  self.plan_ = std::move(plan);
  return HR_OK;
}

hr_result PlanHost::set_timer(void* ctx, std::uint32_t timer_id, std::uint32_t after_ms) {
  PlanHost& self = of(ctx);
  if (self.phase_ != Phase::launch) {
    return HR_E_STATE;
  }
  std::erase_if(self.timers_, [&](const plugins::TimerPlan& timer) { return timer.id == timer_id; });
  if (self.timers_.size() >= HR_MAX_TIMERS) {
    return HR_E_LIMIT;
  }
  self.timers_.push_back({timer_id, after_ms});
  return HR_OK;
}

hr_result PlanHost::snapshot_bytes(void* ctx, hr_str bytes) {
  PlanHost& self = of(ctx);
  std::string_view view;
  if (self.phase_ != Phase::snapshot || self.snapshot_) {
    return HR_E_STATE;
  }
  if (!take(bytes, view)) {
    return HR_E_ARGUMENT;
  }
  if (view.size() > HR_MAX_SNAPSHOT) {
    return HR_E_LIMIT;
  }
  self.snapshot_ = std::string(view);
  return HR_OK;
}

Result<LoadedAdapter> confine_and_load() {
  HR_TRY(note, plugins::read_adapter_note(plugins::plan_adapter, "adapter"));
  confine::Options options;
  options.keep_fds = {plugins::plan_socket, plugins::plan_adapter};
  const auto report = confine::confine(options);
  if (report.has_error()) {
    return report.error();
  }
  return load_adapter(plugins::plan_adapter, note);
}

std::string text_of(hr_str text) {
  return text.data == nullptr ? std::string() : std::string(text.data, text.size);
}

Status serve() {
  const auto loaded = confine_and_load();
  json::Value hello = json::Value::object();
  if (loaded.has_error()) {
    hello.set("error", plugins::to_value(loaded.error()));
    return plugins::send_plan_message(plugins::plan_socket, hello);
  }
  const hr_adapter& table = loaded.value().table();
  json::Value adapter = json::Value::object();
  adapter.set("providerId", text_of(table.provider_id));
  adapter.set("displayName", text_of(table.display_name));
  adapter.set("version", text_of(table.version));
  hello.set("adapter", std::move(adapter));
  HR_CHECK(plugins::send_plan_message(plugins::plan_socket, hello));
  PlanHost host(table);
  for (;;) {
    HR_TRY(request, plugins::receive_plan_message(plugins::plan_socket));
    HR_CHECK(plugins::send_plan_message(plugins::plan_socket, host.answer(request)));
  }
}

}  // namespace

int plan_main() {
  try {
    const Status status = serve();
    return status.has_value() || status.error().code == "plan-peer-gone" ? 0 : 1;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace hitchrail::runner
