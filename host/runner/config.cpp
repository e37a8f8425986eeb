#include "runner/config.hpp"

#include <hitchrail/adapter.h>

#include <algorithm>
#include <utility>

#include "core/json.hpp"

namespace hitchrail::runner {

namespace {

Error invalid(std::string object, std::string detail) {
  return {ErrorClass::internal, "runner-config-invalid", "read runner configuration",
          std::move(object),    std::move(detail),       ""};
}

json::Value limits_value(const journal::Limits& limits) {
  json::Value value = json::Value::object();
  value.set("maxBytes", limits.max_bytes);
  value.set("maxEvents", limits.max_events);
  value.set("reservedBytes", limits.reserved_bytes);
  value.set("reservedEvents", limits.reserved_events);
  value.set("maxSpillBytes", limits.max_spill_bytes);
  return value;
}

Result<std::uint64_t> number(const json::Value& object, const char* key, std::uint64_t max) {
  const auto value = object.get(key).as_int();
  if (!value || *value < 0 || std::cmp_greater(*value, max)) {
    return invalid(key, "not a number from 0 to " + std::to_string(max));
  }
  return static_cast<std::uint64_t>(*value);
}

Status only_members(const json::Value& object, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return invalid(key, "unknown member");
    }
  }
  return {};
}

Result<StreamConfig> parse_stream(const json::Value& value) {
  HR_CHECK(only_members(value, {"stream", "framing", "overflow", "recordCap"}));
  HR_TRY(stream, number(value, "stream", 64));
  HR_TRY(framing, number(value, "framing", HR_FRAME_MESSAGES));
  HR_TRY(overflow, number(value, "overflow", HR_OVERFLOW_TRUNCATE));
  HR_TRY(cap, number(value, "recordCap", HR_MAX_RECORD_CAP));
  if (framing == 0 || overflow == 0 || cap == 0 || stream == 0) {
    return invalid("streams", "a zero member");
  }
  return StreamConfig{static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(framing),
                      static_cast<std::uint32_t>(overflow), static_cast<std::uint32_t>(cap)};
}

Result<journal::Limits> parse_limits(const json::Value& value) {
  HR_CHECK(
      only_members(value, {"maxBytes", "maxEvents", "reservedBytes", "reservedEvents", "maxSpillBytes"}));
  constexpr std::uint64_t most = 1ull << 50;
  journal::Limits limits;
  HR_TRY(max_bytes, number(value, "maxBytes", most));
  HR_TRY(max_events, number(value, "maxEvents", most));
  HR_TRY(reserved_bytes, number(value, "reservedBytes", most));
  HR_TRY(reserved_events, number(value, "reservedEvents", most));
  HR_TRY(max_spill, number(value, "maxSpillBytes", most));
  limits.max_bytes = max_bytes;
  limits.max_events = max_events;
  limits.reserved_bytes = reserved_bytes;
  limits.reserved_events = reserved_events;
  limits.max_spill_bytes = max_spill;
  return limits;
}

}  // namespace

RunnerConfig config_for(const plugins::LaunchPlan& plan, const journal::Limits& limits) {
  RunnerConfig config;
  for (const auto& stream : plan.streams) {
    config.streams.push_back({stream.stream, stream.framing, stream.overflow, stream.record_cap});
  }
  for (const auto& file : plan.file_streams) {
    config.streams.push_back({file.stream, file.framing, HR_OVERFLOW_TRUNCATE, file.record_cap});
  }
  config.timers = plan.timers;
  config.input_closed = plan.close_input;
  config.journal = limits;
  return config;
}

std::string to_json(const RunnerConfig& config) {
  json::Value root = json::Value::object();
  root.set("schemaVersion", "runner-config/v1");
  json::Value streams = json::Value::array();
  for (const auto& stream : config.streams) {
    json::Value item = json::Value::object();
    item.set("stream", stream.stream);
    item.set("framing", stream.framing);
    item.set("overflow", stream.overflow);
    item.set("recordCap", stream.record_cap);
    streams.push(std::move(item));
  }
  root.set("streams", std::move(streams));
  json::Value timers = json::Value::array();
  for (const auto& timer : config.timers) {
    json::Value item = json::Value::object();
    item.set("id", timer.id);
    item.set("afterMs", timer.after_ms);
    timers.push(std::move(item));
  }
  root.set("timers", std::move(timers));
  root.set("inputClosed", config.input_closed);
  json::Value services = json::Value::array();
  for (const auto& service : config.services) {
    services.push(service);
  }
  root.set("services", std::move(services));
  root.set("journal", limits_value(config.journal));
  return json::write(root);
}

Result<RunnerConfig> parse_config(std::string_view text) {
  HR_TRY(root, json::parse(text, json::Duplicates::refuse, "runner configuration"));
  HR_CHECK(only_members(root, {"schemaVersion", "streams", "timers", "inputClosed", "services", "journal"}));
  if (root.get("schemaVersion").as_string() != "runner-config/v1") {
    return invalid("schemaVersion", "not runner-config/v1");
  }
  RunnerConfig config;
  for (const auto& item : root.get("streams").items()) {
    HR_TRY(stream, parse_stream(item));
    for (const auto& other : config.streams) {
      if (other.stream == stream.stream) {
        return invalid("streams", "a stream named twice");
      }
    }
    config.streams.push_back(stream);
  }
  for (const auto& item : root.get("timers").items()) {
    HR_TRY(id, number(item, "id", 0xFFFFFFFFu));
    HR_TRY(after, number(item, "afterMs", 0xFFFFFFFFu));
    config.timers.push_back({static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(after)});
  }
  config.input_closed = root.get("inputClosed").as_bool();
  for (const auto& item : root.get("services").items()) {
    config.services.push_back(item.as_string());
  }
  HR_TRY(limits, parse_limits(root.get("journal")));
  config.journal = limits;
  return config;
}

}  // namespace hitchrail::runner
