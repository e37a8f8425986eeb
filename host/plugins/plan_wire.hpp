#pragma once
// What plugins::Planner and `hitchrail-runner --plan` say to each other over one SOCK_STREAM: std::uint32_t
// size, then one JSON document. Both ends are one build. Bytes that may be anything travel as base64.
//
//   request  {"op":"probe","request":TEXT} | {"op":"probe_step","result":{…}} |
//   {"op":"render","envelope":TEXT,"mode":N,"context":TEXT}
//            | {"op":"launch","launch":TEXT,"mode":N,"requestText":BASE64}
//   reply    {"steps":[…],"result":TEXT?} | {"text":BASE64} | {"plan":{…},"snapshot":BASE64} | {"error":{…}},
//   each with
//            "logs":[TEXT…]; the first message of the child is {"adapter":{providerId,displayName,version}}
//            or an error

#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"
#include "plugins/planner.hpp"

namespace hitchrail::plugins {

inline constexpr std::size_t max_plan_message = 64u << 20;
inline constexpr int plan_socket = 3;  // descriptors of the child
inline constexpr int plan_adapter = 4;

Result<std::string> base64_decode(std::string_view text);

// Blocking; the child's side. `plan-peer-gone` at end of file.
Status send_plan_message(int fd, const json::Value& message);
Result<json::Value> receive_plan_message(int fd);

json::Value to_value(const Error& error);
Error error_from(const json::Value& value);
json::Value to_value(const ProbeStep& step);
Result<ProbeStep> probe_step_from(const json::Value& value);
json::Value to_value(const ProbeStepResult& result);
Result<ProbeStepResult> probe_step_result_from(const json::Value& value);
json::Value to_value(const LaunchPlan& plan);
Result<LaunchPlan> launch_plan_from(const json::Value& value);

// The bounds of adapter.h and this header's field comments; fills in defaults (caps, missing streams). Error
// adapter-plan-invalid names the field.
Status check_plan(LaunchPlan& plan);
Status check_step(ProbeStep& step);

}  // namespace hitchrail::plugins
