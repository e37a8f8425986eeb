#pragma once
// What the host tells a live runner beside the spawn document: one sealed JSON document (runner-config/v1) at
// RunnerFd::runner_config. The launch service writes it, hitchrail-runner reads it. Links as
// hitchrail_runner_config.
//
// Promises: to_json and parse_config are inverse. Refuses (runner-config-invalid): unknown members, unknown
// framings, caps over HR_MAX_RECORD_CAP, a stream named twice. Holds no secret: those come by the secrets
// pipe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "journal/journal.hpp"
#include "plugins/planner.hpp"

namespace hitchrail::runner {

struct StreamConfig {
  std::uint32_t stream = 0;
  std::uint32_t framing = 0;     // HR_FRAME_*
  std::uint32_t overflow = 0;    // HR_OVERFLOW_*; file streams are always truncated
  std::uint32_t record_cap = 0;  // bytes, never 0
};

struct RunnerConfig {
  std::vector<StreamConfig> streams;       // of the processes, then of the files
  std::vector<plugins::TimerPlan> timers;  // armed by the first commit of the run
  bool input_closed = false;               // the plan ends the input after its initial part
  std::vector<std::string> services;       // extension ids granted to this run; none is served yet
  journal::Limits journal;
};

RunnerConfig config_for(const plugins::LaunchPlan& plan, const journal::Limits& limits = {});
std::string to_json(const RunnerConfig& config);
Result<RunnerConfig> parse_config(std::string_view text);

}  // namespace hitchrail::runner
