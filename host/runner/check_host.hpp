#pragma once
// The host that the checker shows an adapter: takes every callback, judges it as the live host would, and
// keeps a transcript of what was called with what. Two transcripts are equal exactly when an adapter said the
// same.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hitchrail/adapter.h"
#include "plugins/check_steps.hpp"

namespace hitchrail::runner {

class CheckHost {
 public:
  CheckHost();
  CheckHost(const CheckHost&) = delete;
  CheckHost& operator=(const CheckHost&) = delete;

  [[nodiscard]] const hr_host* raw() const { return &host_; }
  void begin(plugins::Hook hook);  // forgets what the last hook did, allows what this one may call

  [[nodiscard]] const std::string& transcript() const { return transcript_; }  // without log and fail
  // The first callback that was not allowed in the hook, or whose argument is out of bounds; empty when there
  // is none.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] std::string reason() const;  // what `fail` said, else ""
  [[nodiscard]] const std::vector<std::uint32_t>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<std::string>& results() const { return results_; }      // probe_result
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }          // rendered
  [[nodiscard]] const std::vector<std::string>& snapshots() const { return snapshots_; }  // snapshot_bytes
  [[nodiscard]] std::size_t plans() const { return plans_; }
  [[nodiscard]] std::size_t verdicts() const { return verdicts_; }
  [[nodiscard]] const std::string& arguments() const {
    return arguments_;
  }  // argv and literal variables of the plan

 private:
  friend struct CheckCalls;
  hr_host host_;
  plugins::Hook hook_ = plugins::Hook::none;
  std::string transcript_, fault_, fail_code_, fail_text_, arguments_;
  std::vector<std::uint32_t> steps_;
  std::vector<std::string> results_, texts_, snapshots_;
  std::size_t plans_ = 0, verdicts_ = 0;
  std::uint64_t next_call_ = 1;
};

}  // namespace hitchrail::runner
