#include "plugins/plan_wire.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/text.hpp"

namespace hitchrail::plugins {

namespace {

Error protocol(std::string detail) {
  return {ErrorClass::internal, "adapter-protocol", "plan", "planning runner", std::move(detail), ""};
}

Status receive_exactly(int fd, char* out, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, out, size, 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return errno_error("receive", "planning socket", errno);
    }
    if (got == 0) {
      return Error{ErrorClass::environment, "plan-peer-gone",          "receive",
                   "planning socket",       "the other end closed it", ""};
    }
    out += got;
    size -= static_cast<std::size_t>(got);
  }
  return {};
}

// Readers of one object: a wrong type anywhere makes the whole message refused.
struct Fields {
  const json::Value& object;
  bool good = true;

  std::uint32_t u32(const char* key) {
    const auto value = object.get(key).as_int();
    if (!value || *value < 0 || *value > 0xFFFFFFFFll) {
      good = false;
      return 0;
    }
    return static_cast<std::uint32_t>(*value);
  }
  std::int32_t i32(const char* key) {
    const auto value = object.get(key).as_int();
    if (!value || *value < INT32_MIN || *value > INT32_MAX) {
      good = false;
      return 0;
    }
    return static_cast<std::int32_t>(*value);
  }
  bool boolean(const char* key) {
    good = good && object.get(key).is_bool();
    return object.get(key).as_bool();
  }
  std::string bytes(const char* key) { return bytes_of(object.get(key)); }
  std::string bytes_of(const json::Value& value) {
    auto decoded = base64_decode(value.as_string());
    if (!value.is_string() || decoded.has_error()) {
      good = false;
      return {};
    }
    return std::move(decoded).value();
  }
  const std::vector<json::Value>& array(const char* key) {
    good = good && object.get(key).is_array();
    return object.get(key).items();
  }
};

json::Value bytes_value(std::string_view bytes) {
  return json::Value(base64_encode(bytes));
}

template <class T, class F>
json::Value list(const std::vector<T>& items, F&& each) {
  json::Value out = json::Value::array();
  for (const auto& item : items) {
    out.push(each(item));
  }
  return out;
}

json::Value part_value(const Part& part) {
  json::Value out = json::Value::object();
  out.set("kind", part.kind);
  out.set("encoding", part.encoding);
  out.set("bytes", bytes_value(part.bytes));
  return out;
}

std::vector<Part> parts_from(Fields& outer, const char* key) {
  std::vector<Part> parts;
  for (const auto& item : outer.array(key)) {
    Fields fields{item};
    parts.push_back({fields.u32("kind"), fields.u32("encoding"), fields.bytes("bytes")});
    outer.good = outer.good && fields.good;
  }
  return parts;
}

json::Value stream_value(const StreamPlan& stream) {
  json::Value out = json::Value::object();
  out.set("stream", stream.stream);
  out.set("framing", stream.framing);
  out.set("overflow", stream.overflow);
  out.set("recordCap", stream.record_cap);
  return out;
}

json::Value file_value(const FileStreamPlan& file) {
  json::Value out = json::Value::object();
  out.set("stream", file.stream);
  out.set("framing", file.framing);
  out.set("recordCap", file.record_cap);
  out.set("carry", file.carry);
  out.set("pattern", bytes_value(file.pattern));
  return out;
}

json::Value stop_value(const StopStepPlan& step) {
  json::Value out = json::Value::object();
  out.set("kind", step.kind);
  out.set("signal", static_cast<std::int64_t>(step.signal));
  out.set("waitMs", step.wait_ms);
  out.set("parts", list(step.parts, part_value));
  return out;
}

void plan_lists_from(Fields& fields, LaunchPlan& plan) {
  for (const auto& item : fields.array("streams")) {
    Fields stream{item};
    plan.streams.push_back(
        {stream.u32("stream"), stream.u32("framing"), stream.u32("overflow"), stream.u32("recordCap")});
    fields.good = fields.good && stream.good;
  }
  for (const auto& item : fields.array("fileStreams")) {
    Fields file{item};
    plan.file_streams.push_back({file.u32("stream"), file.u32("framing"), file.u32("recordCap"),
                                 file.boolean("carry"), file.bytes("pattern")});
    fields.good = fields.good && file.good;
  }
  for (const auto& item : fields.array("stop")) {
    Fields step{item};
    plan.stop.push_back(
        {step.u32("kind"), step.i32("signal"), step.u32("waitMs"), parts_from(step, "parts")});
    fields.good = fields.good && step.good;
  }
  for (const auto& item : fields.array("homeFiles")) {
    Fields file{item};
    plan.home_files.push_back({file.bytes("path"), file.bytes("bytes")});
    fields.good = fields.good && file.good;
  }
  for (const auto& item : fields.array("timers")) {
    Fields timer{item};
    plan.timers.push_back({timer.u32("id"), timer.u32("afterMs")});
    fields.good = fields.good && timer.good;
  }
  for (const auto& item : fields.array("env")) {
    Fields entry{item};
    plan.env.push_back({entry.u32("source"), entry.bytes("name"), entry.bytes("value")});
    fields.good = fields.good && entry.good;
  }
}

constexpr std::array<const char*, 5> class_names = {"failed", "usage", "refused", "environment", "internal"};

}  // namespace

Result<std::string> base64_decode(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') {
      return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
      return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
      return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  if ((text.size() + padding) % 4 != 0) {
    return protocol("base64 of a wrong length");
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const int value = digit(c);
    if (value < 0) {
      return protocol("not base64");
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFFu));
    }
  }
  return out;
}

Status send_plan_message(int fd, const json::Value& message) {
  const std::string text = json::write(message);
  if (text.size() > max_plan_message) {
    return protocol("the message is too large");
  }
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += text;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return errno_error("send", "planning socket", errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return {};
}

Result<json::Value> receive_plan_message(int fd) {
  std::uint32_t size = 0;
  HR_CHECK(receive_exactly(fd, reinterpret_cast<char*>(&size), sizeof(size)));
  if (size > max_plan_message) {
    return protocol("the message is too large");
  }
  std::string text(size, '\0');
  HR_CHECK(receive_exactly(fd, text.data(), text.size()));
  return json::parse(text, json::Duplicates::refuse, "planning message");
}

json::Value to_value(const Error& error) {
  json::Value out = json::Value::object();
  out.set("class", class_names[static_cast<std::size_t>(error.kind) % class_names.size()]);
  out.set("code", error.code);
  out.set("operation", error.operation);
  out.set("object", error.object);
  out.set("detail", error.detail);
  out.set("remedy", error.remedy);
  return out;
}

Error error_from(const json::Value& value) {
  Error error;
  for (std::size_t i = 0; i < class_names.size(); ++i) {
    if (value.get("class").as_string() == class_names[i]) {
      error.kind = static_cast<ErrorClass>(i);
    }
  }
  error.code = value.get("code").as_string();
  error.operation = value.get("operation").as_string();
  error.object = value.get("object").as_string();
  error.detail = value.get("detail").as_string();
  error.remedy = value.get("remedy").as_string();
  return error;
}

json::Value to_value(const ProbeStep& step) {
  json::Value out = json::Value::object();
  out.set("kind", step.kind);
  out.set("stepId", step.step_id);
  out.set("timeoutMs", step.timeout_ms);
  out.set("maxOutput", step.max_output);
  out.set("stopAfterRecords", step.stop_after_records);
  out.set("argv", list(step.argv, bytes_value));
  out.set("input", bytes_value(step.input));
  return out;
}

Result<ProbeStep> probe_step_from(const json::Value& value) {
  Fields fields{value};
  ProbeStep step;
  step.kind = fields.u32("kind");
  step.step_id = fields.u32("stepId");
  step.timeout_ms = fields.u32("timeoutMs");
  step.max_output = fields.u32("maxOutput");
  step.stop_after_records = fields.u32("stopAfterRecords");
  for (const auto& item : fields.array("argv")) {
    step.argv.push_back(fields.bytes_of(item));
  }
  step.input = fields.bytes("input");
  if (!fields.good) {
    return protocol("a probe step is malformed");
  }
  return step;
}

json::Value to_value(const ProbeStepResult& result) {
  json::Value out = json::Value::object();
  out.set("stepId", result.step_id);
  out.set("outcome", result.outcome);
  out.set("code", static_cast<std::int64_t>(result.code));
  out.set("stdoutTruncated", result.stdout_truncated);
  out.set("stderrTruncated", result.stderr_truncated);
  out.set("stdout", bytes_value(result.stdout_bytes));
  out.set("stderr", bytes_value(result.stderr_bytes));
  return out;
}

Result<ProbeStepResult> probe_step_result_from(const json::Value& value) {
  Fields fields{value};
  ProbeStepResult result;
  result.step_id = fields.u32("stepId");
  result.outcome = fields.u32("outcome");
  result.code = fields.i32("code");
  result.stdout_truncated = fields.boolean("stdoutTruncated");
  result.stderr_truncated = fields.boolean("stderrTruncated");
  result.stdout_bytes = fields.bytes("stdout");
  result.stderr_bytes = fields.bytes("stderr");
  if (!fields.good) {
    return protocol("a probe step result is malformed");
  }
  return result;
}

json::Value to_value(const LaunchPlan& plan) {
  json::Value out = json::Value::object();
  out.set("argv", list(plan.argv, bytes_value));
  out.set("env", list(plan.env, [](const EnvEntry& entry) {
            json::Value item = json::Value::object();
            item.set("source", entry.source);
            item.set("name", bytes_value(entry.name));
            item.set("value", bytes_value(entry.value));
            return item;
          }));
  out.set("streams", list(plan.streams, stream_value));
  out.set("initialInput", list(plan.initial_input, part_value));
  out.set("stop", list(plan.stop, stop_value));
  out.set("homeFiles", list(plan.home_files, [](const HomeFile& file) {
            json::Value item = json::Value::object();
            item.set("path", bytes_value(file.path));
            item.set("bytes", bytes_value(file.bytes));
            return item;
          }));
  out.set("fileStreams", list(plan.file_streams, file_value));
  out.set("timers", list(plan.timers, [](const TimerPlan& timer) {
            json::Value item = json::Value::object();
            item.set("id", timer.id);
            item.set("afterMs", timer.after_ms);
            return item;
          }));
  out.set("closeInput", plan.close_input);
  out.set("needsPipe", plan.needs_pipe);
  out.set("transport", plan.transport);
  out.set("endpoint", bytes_value(plan.endpoint));
  return out;
}

Result<LaunchPlan> launch_plan_from(const json::Value& value) {
  Fields fields{value};
  LaunchPlan plan;
  for (const auto& item : fields.array("argv")) {
    plan.argv.push_back(fields.bytes_of(item));
  }
  plan_lists_from(fields, plan);
  plan.initial_input = parts_from(fields, "initialInput");
  plan.close_input = fields.boolean("closeInput");
  plan.needs_pipe = fields.boolean("needsPipe");
  plan.transport = fields.u32("transport");
  plan.endpoint = fields.bytes("endpoint");
  if (!fields.good) {
    return protocol("the plan is malformed");
  }
  return plan;
}

}  // namespace hitchrail::plugins
