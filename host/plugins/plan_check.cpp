// The rules a plan must keep before anything of it is used. Run in the host: the child that made the plan
// holds foreign code.

#include <hitchrail/adapter.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <utility>

#include "plugins/plan_wire.hpp"
#include "shim/wire.hpp"

namespace hitchrail::plugins {

namespace {

constexpr std::size_t max_argument = 128u << 10;
constexpr std::size_t max_argv_bytes = 1u << 20;
constexpr std::size_t max_env = 256;
constexpr std::size_t max_env_value = 128u << 10;
constexpr std::size_t max_home_files = 64;
constexpr std::size_t max_home_bytes = 8u << 20;
constexpr std::size_t max_stop_steps = 16;
constexpr std::uint32_t max_wait_ms = 600'000;
constexpr std::size_t max_path = 4096;
constexpr std::size_t max_secret_name = 80;
constexpr std::uint32_t default_cap = 8u << 20;
constexpr std::uint32_t chunk_cap = 64u << 10;
constexpr std::uint32_t max_step_ms = 60'000;
constexpr std::uint32_t max_step_output = 1u << 20;
constexpr std::size_t max_file_streams = wire::max_streams - 2;

Error invalid(std::string field, std::string detail) {
  return {ErrorClass::failed, "adapter-plan-invalid",
          "check plan",       std::move(field),
          std::move(detail),  "This is a fault of the adapter; `hitchrail plugins check` reproduces it"};
}

bool has_nul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

Status check_argv(const std::vector<std::string>& argv) {
  std::size_t total = 0;
  for (const auto& argument : argv) {
    total += argument.size();
    if (has_nul(argument)) {
      return invalid("argv", "an argument holds a NUL byte");
    }
    if (argument.size() >= max_argument) {
      return invalid("argv", "an argument is longer than 128 KiB");
    }
  }
  if (argv.size() > HR_MAX_ARGV || total > max_argv_bytes) {
    return invalid("argv", "too many or too long arguments");
  }
  return {};
}

bool is_env_name(const std::string& name) {
  if (name.empty() || name.size() > 80 || (name[0] >= '0' && name[0] <= '9')) {
    return false;
  }
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

// Relative, no empty, "." or ".." component.
bool is_relative(const std::string& path) {
  if (path.empty() || path.size() > max_path || has_nul(path) || path.front() == '/') {
    return false;
  }
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

Status check_env(const std::vector<EnvEntry>& env) {
  std::set<std::string> names;
  for (const auto& entry : env) {
    if (!is_env_name(entry.name)) {
      return invalid("env", "a name is not ^[A-Z_][A-Z0-9_]{0,79}$");
    }
    if (!names.insert(entry.name).second) {
      return invalid("env." + entry.name, "named twice");
    }
    if (entry.source < HR_ENV_FROM_HOST || entry.source > HR_ENV_HOME) {
      return invalid("env." + entry.name, "unknown source");
    }
    if (has_nul(entry.value) || entry.value.size() > max_env_value) {
      return invalid("env." + entry.name, "the value holds a NUL byte or is too long");
    }
    if (entry.source == HR_ENV_HOME && !entry.value.empty() && !is_relative(entry.value)) {
      return invalid("env." + entry.name, "the path below the home is not a plain relative path");
    }
  }
  return env.size() > max_env ? Status(invalid("env", "too many names")) : Status();
}

Status check_stream(StreamPlan& stream) {
  const std::string field = "streams." + std::to_string(stream.stream);
  if (stream.stream < HR_STREAM_STDOUT || stream.stream > HR_STREAM_TRANSPORT) {
    return invalid(field, "unknown stream");
  }
  if (stream.framing < HR_FRAME_LINES || stream.framing > HR_FRAME_MESSAGES) {
    return invalid(field, "unknown framing");
  }
  if ((stream.framing == HR_FRAME_MESSAGES) != (stream.stream == HR_STREAM_TRANSPORT)) {
    return invalid(field, "messages are the framing of a transport, and its only one");
  }
  if (stream.overflow == 0) {
    stream.overflow = HR_OVERFLOW_FAIL;
  }
  if (stream.overflow > HR_OVERFLOW_TRUNCATE || stream.record_cap > HR_MAX_RECORD_CAP) {
    return invalid(field, "unknown overflow or a record cap over 16 MiB");
  }
  if (stream.record_cap == 0) {
    stream.record_cap = stream.framing == HR_FRAME_CHUNKS ? chunk_cap : default_cap;
  }
  return {};
}

Status check_streams(LaunchPlan& plan) {
  std::set<std::uint32_t> seen;
  for (auto& stream : plan.streams) {
    HR_CHECK(check_stream(stream));
    if (!seen.insert(stream.stream).second) {
      return invalid("streams." + std::to_string(stream.stream), "named twice");
    }
  }
  for (const std::uint32_t stream : {HR_STREAM_STDOUT, HR_STREAM_STDERR}) {
    if (seen.count(stream) == 0) {
      plan.streams.push_back({stream, HR_FRAME_CHUNKS, HR_OVERFLOW_TRUNCATE, chunk_cap});
    }
  }
  std::sort(plan.streams.begin(), plan.streams.end(),
            [](const StreamPlan& a, const StreamPlan& b) { return a.stream < b.stream; });
  return {};
}

Status check_file_streams(std::vector<FileStreamPlan>& files) {
  if (files.size() > max_file_streams) {
    return invalid("fileStreams", "more than six");
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    FileStreamPlan& file = files[i];
    const std::string field = "fileStreams." + std::to_string(i);
    if (file.stream != HR_STREAM_FILE_FIRST + i) {
      return invalid(field, "streams of files are numbered from HR_STREAM_FILE_FIRST in order");
    }
    if (file.framing < HR_FRAME_LINES || file.framing > HR_FRAME_CONTENT_LENGTH ||
        file.record_cap > HR_MAX_RECORD_CAP) {
      return invalid(field, "unknown framing or a record cap over 16 MiB");
    }
    if (!is_relative(file.pattern)) {
      return invalid(field, "the pattern is not a plain relative path");
    }
    if (file.record_cap == 0) {
      file.record_cap = file.framing == HR_FRAME_CHUNKS ? chunk_cap : default_cap;
    }
  }
  return {};
}

Status check_parts(const std::vector<Part>& parts, const std::string& field) {
  for (const auto& part : parts) {
    const bool bytes = part.kind == HR_PART_BYTES && part.encoding == HR_ENCODE_RAW;
    const bool secret = part.kind == HR_PART_SECRET && part.encoding <= HR_ENCODE_BASE64 &&
                        !part.bytes.empty() && part.bytes.size() <= max_secret_name && !has_nul(part.bytes);
    if (!bytes && !secret) {
      return invalid(field, "a part is neither bytes nor a named secret");
    }
  }
  return outbox_bytes(parts).size() > wire::max_outbox ? Status(invalid(field, "more than 4 MiB")) : Status();
}

bool is_stop_signal(std::int32_t signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 ||
         signal == SIGUSR2 || signal == SIGQUIT || signal == SIGKILL;
}

Status check_stop(const std::vector<StopStepPlan>& steps) {
  if (steps.size() > max_stop_steps) {
    return invalid("stop", "too many steps");
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StopStepPlan& step = steps[i];
    const std::string field = "stop." + std::to_string(i);
    if (step.kind < HR_STOP_SEND || step.kind > HR_STOP_SIGNAL || step.wait_ms > max_wait_ms) {
      return invalid(field, "unknown kind or a wait over ten minutes");
    }
    if ((step.kind == HR_STOP_SIGNAL) != is_stop_signal(step.signal) ||
        (step.kind != HR_STOP_SIGNAL && step.signal != 0)) {
      return invalid(field, "the signal does not fit the step");
    }
    if (step.kind != HR_STOP_SEND && !step.parts.empty()) {
      return invalid(field, "only a sending step has parts");
    }
    HR_CHECK(check_parts(step.parts, field));
  }
  return {};
}

Status check_home_files(const std::vector<HomeFile>& files) {
  std::set<std::string> paths;
  std::size_t total = 0;
  for (const auto& file : files) {
    total += file.bytes.size();
    if (!is_relative(file.path)) {
      return invalid("homeFiles", "a path is not a plain relative path");
    }
    if (!paths.insert(file.path).second) {
      return invalid("homeFiles", "a path named twice");
    }
  }
  return files.size() > max_home_files || total > max_home_bytes
             ? Status(invalid("homeFiles", "too many or too large"))
             : Status();
}

}  // namespace

std::string outbox_bytes(const std::vector<Part>& parts) {
  std::string out;
  for (const auto& part : parts) {
    const wire::OutboxPart head{part.kind == HR_PART_SECRET ? wire::part_secret : wire::part_bytes,
                                part.encoding, static_cast<std::uint32_t>(part.bytes.size())};
    out.append(reinterpret_cast<const char*>(&head), sizeof(head));
    out += part.bytes;
  }
  return out;
}

Status check_plan(LaunchPlan& plan) {
  HR_CHECK(check_argv(plan.argv));
  HR_CHECK(check_env(plan.env));
  HR_CHECK(check_streams(plan));
  HR_CHECK(check_file_streams(plan.file_streams));
  HR_CHECK(check_parts(plan.initial_input, "initialInput"));
  HR_CHECK(check_stop(plan.stop));
  HR_CHECK(check_home_files(plan.home_files));
  if (plan.timers.size() > HR_MAX_TIMERS) {
    return invalid("timers", "too many");
  }
  if (plan.transport == 0) {
    plan.transport = HR_TRANSPORT_STDIO;
  }
  if (plan.transport > HR_TRANSPORT_WEBSOCKET) {
    return invalid("transport", "unknown transport");
  }
  if ((plan.transport == HR_TRANSPORT_WEBSOCKET) == plan.endpoint.empty() || has_nul(plan.endpoint) ||
      plan.endpoint.size() > max_path) {
    return invalid("endpoint", "a WebSocket names its endpoint, nothing else does");
  }
  return {};
}

Status check_step(ProbeStep& step) {
  HR_CHECK(check_argv(step.argv));
  if (step.kind != HR_STEP_COMMAND && step.kind != HR_STEP_DIALOGUE) {
    return invalid("probe.kind", "unknown kind of step");
  }
  if (step.timeout_ms == 0) {
    step.timeout_ms = 5000;
  }
  if (step.max_output == 0) {
    step.max_output = 8192;
  }
  if (step.timeout_ms > max_step_ms || step.max_output > max_step_output ||
      step.input.size() > max_step_output) {
    return invalid("probe.limits", "a step asks for more than 60 s, 1 MiB of output or 1 MiB of input");
  }
  return {};
}

}  // namespace hitchrail::plugins
