#pragma once
// The checker's steps, run inside the confined child. Each step makes the objects it needs from nothing, so
// the order of the steps carries no state.

#include <string>
#include <string_view>

#include "plugins/check_steps.hpp"
#include "plugins/check_wire.hpp"
#include "runner/check_host.hpp"
#include "runner/confine.hpp"

namespace hitchrail::runner {

// How a step ended; thrown past our own frames only, never past the adapter's.
struct StepEnd {
  plugins::StepResult result;
  std::string detail;
};

class CheckWalk {
 public:
  CheckWalk(const hr_adapter& adapter, plugins::CheckPage& page, const confine::TrapLog& trap,
            std::string launch_json);
  void run(std::size_t step);  // throws StepEnd unless the step passed
  // True after a hook did something to the process itself: it is not fit for another step.
  [[nodiscard]] bool fouled() const { return fouled_; }

 private:
  static constexpr std::string_view standard_probe_request =
      R"({"schemaVersion":"probe-request/v1","profileId":"check","executable":"/usr/bin/true","platform":"linux"})";
  friend class LiveProbe;
  friend class LiveSession;
  template <class Body>
  hr_result call(plugins::Hook hook, Body&& body);
  [[noreturn]] void foul(plugins::Hook hook, const std::string& what);
  void look_around(plugins::Hook hook);
  void need(plugins::Hook hook) const;

  void probe_begin();
  void probe_walk();
  void probe_unasked();
  void probe_close();
  void render(bool again);
  void launch_plan();
  void launch_same();
  void launch_arguments();
  void pair(plugins::SessionState state, plugins::Hook hook);
  void snapshot_same();
  void reattach_quiet();
  void reattach_broken();
  void records_any();
  void records_same();
  void end_verdict();

  hr_result invoke(plugins::Hook hook, hr_session* session);
  std::string run_records();

  const hr_adapter& adapter_;
  plugins::CheckPage& page_;
  const confine::TrapLog& trap_;
  std::string launch_json_;
  CheckHost host_;
  bool fouled_ = false;
};

}  // namespace hitchrail::runner
