#pragma once
// `plugins check FILE`: says exactly what is wrong with an adapter library. Links as hitchrail_check
// (plugins, core).
//
// Promises: the file is judged as bytes first (path, note, dependencies, exports); only then its code runs,
// in a confined child (hitchrail-runner --check) under a time limit, sealed like in a run; every (state,
// hook) pair of adapter.h's table is walked; a crash, an exit, a hang, output on stdout, a closed descriptor
// or a forbidden call is a finding of the step that did it; the child and all it could have started are gone
// when check_plugin returns. A step that could not be reached is `skipped` and says why; a skip is never a
// pass. Refuses only to start: runner missing, no Landlock (Result error). Everything about the library is a
// finding.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::plugins {

enum class Outcome { passed, failed, crashed, timed_out, skipped };
std::string_view outcome_name(Outcome outcome);

struct Finding {
  std::string id;        // stable: "elf.exports", "load", "pair.open.map_events"
  std::string sentence;  // what must hold
  Outcome outcome = Outcome::skipped;
  std::string detail;  // why not; data of an outsider, escape when printing
};

struct CheckReport {
  std::string path;
  std::string provider;  // empty when the note could not be read
  std::string digest;
  std::vector<Finding> findings;
  [[nodiscard]] bool passed() const;  // every finding passed, and there is at least one
  [[nodiscard]] std::size_t count(Outcome outcome) const;
};

struct CheckOptions {
  int runner_fd = -1;               // hitchrail-runner, opened by the caller
  std::uint32_t step_ms = 5000;     // time limit of one step (hook, load)
  std::string launch_request_json;  // empty: a standard schemas/launch-request.v1.json document
};

// The launch request used unless CheckOptions names another.
std::string_view standard_launch_request();

Result<CheckReport> check_plugin(const std::string& path, const CheckOptions& options);

}  // namespace hitchrail::plugins
