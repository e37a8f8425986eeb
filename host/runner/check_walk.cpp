#include "runner/check_walk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "runner/check_live.hpp"
#include "runner/check_schema.hpp"

namespace hitchrail::runner {

using plugins::Hook;
using plugins::hook_bit;
using plugins::hook_name;
using plugins::SessionState;

namespace {

constexpr std::string_view task_marker = "hitchrail-check-task-6b1f";
constexpr std::string_view envelope =
    R"({"schemaVersion":"task-envelope/v1","taskId":"task_check","attemptId":"attempt_check",)"
    R"("subject":{"title":"Check","objective":"Check","message":"Say hello."},"constraints":[],"acceptanceCriteria":[]})";
constexpr std::size_t most_probe_steps = 32;

}  // namespace

// ---- calling the adapter
// ------------------------------------------------------------------------------------------

CheckWalk::CheckWalk(const hr_adapter& adapter, plugins::CheckPage& page, const confine::TrapLog& trap,
                     std::string launch_json)
    : adapter_(adapter), page_(page), trap_(trap), launch_json_(std::move(launch_json)) {}

void CheckWalk::foul(Hook hook, const std::string& what) {
  page_.blocked.fetch_or(hook_bit(hook));
  fouled_ = true;
  fail(std::string(hook_name(hook)) + " " + what);
}

// What an adapter can do to a process without calling the host.
void CheckWalk::look_around(Hook hook) {
  if (trap_.count != 0) {
    foul(hook, "made the forbidden system call " + confine::syscall_name(trap_.first_syscall));
  }
  for (const int fd : {0, 1, 2, plugins::check_adapter_fd, plugins::check_page_fd}) {
    if (::fcntl(fd, F_GETFD) < 0) {
      foul(hook, "closed descriptor " + std::to_string(fd));
    }
  }
  std::fflush(nullptr);
  for (const int fd : {1, 2}) {
    struct stat status {};
    if (::fstat(fd, &status) == 0 && status.st_size != 0) {
      foul(hook, "wrote " + std::to_string(status.st_size) + " bytes to " + (fd == 1 ? "stdout" : "stderr"));
    }
  }
}

void CheckWalk::need(Hook hook) const {
  if ((page_.blocked.load() & hook_bit(hook)) != 0) {
    skip(std::string("not run: ") + hook_name(hook) + " is not called again after its finding above");
  }
}

// ---- probe
// --------------------------------------------------------------------------------------------------------

void CheckWalk::probe_begin() {
  LiveProbe probe(*this);
  if (probe.result() != HR_OK || probe.get() == nullptr) {
    fail(answered(Hook::probe, probe.result(), host_) +
         (probe.get() == nullptr ? " and made no object" : ""));
  }
  if (host_.steps().empty() && host_.results().empty()) {
    fail("probe asked for no step and gave no result");
  }
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
}

void CheckWalk::probe_walk() {
  LiveProbe probe(*this);
  if (probe.result() != HR_OK || probe.get() == nullptr) {
    skip("not reached: " + answered(Hook::probe, probe.result(), host_));
  }
  std::vector<std::uint32_t> waiting = host_.steps();
  std::vector<std::string> results = host_.results();
  if (waiting.empty() && results.empty()) {
    skip("not reached: probe asked for no step");
  }
  for (std::size_t done = 0; done < waiting.size() && done < most_probe_steps; ++done) {
    auto in = make<hr_probe_step_result>();
    in.step_id = waiting[done];
    in.outcome = HR_STEP_EXITED;
    const hr_result result =
        call(Hook::on_probe_step, [&] { return adapter_.on_probe_step(host_.raw(), probe.get(), &in); });
    if (!host_.fault().empty()) {
      fail(host_.fault());
    }
    if (result != HR_OK) {
      if (result == HR_E_STATE || host_.reason().empty()) {
        fail(answered(Hook::on_probe_step, result, host_) +
             (host_.reason().empty() ? " without saying why" : ""));
      }
      return;  // a program that says nothing is no provider: refused, with a reason
    }
    waiting.insert(waiting.end(), host_.steps().begin(), host_.steps().end());
    results.insert(results.end(), host_.results().begin(), host_.results().end());
  }
  if (results.size() != 1) {
    fail("the probe ended with " + std::to_string(results.size()) + " results");
  }
  const std::string wrong = probe_result_fault(results.front());
  if (!wrong.empty()) {
    fail("the probe's result " + wrong);
  }
}

void CheckWalk::probe_unasked() {
  LiveProbe probe(*this);
  if (probe.result() != HR_OK || probe.get() == nullptr) {
    skip("not reached: " + answered(Hook::probe, probe.result(), host_));
  }
  auto in = make<hr_probe_step_result>();
  in.step_id = 0xfffffffeU;
  in.outcome = HR_STEP_EXITED;
  const hr_result result =
      call(Hook::on_probe_step, [&] { return adapter_.on_probe_step(host_.raw(), probe.get(), &in); });
  if (result != HR_E_STATE) {
    fail(answered(Hook::on_probe_step, result, host_) + ", expected HR_E_STATE");
  }
}

void CheckWalk::probe_close() {
  need(Hook::probe_close);
  LiveProbe probe(*this);
  if (probe.get() == nullptr) {
    skip("not reached: " + answered(Hook::probe, probe.result(), host_));
  }
  probe.close();
}

// ---- render and launch
// ----------------------------------------------------------------------------------------------

void CheckWalk::render(bool again) {
  std::string first;
  for (int i = 0; i < (again ? 2 : 1); ++i) {
    auto in = make<hr_render_request>();
    in.envelope_json = str(envelope);
    const hr_result result = call(Hook::render, [&] { return adapter_.render(host_.raw(), &in); });
    if (result != HR_OK || host_.texts().size() != 1) {
      const std::string what =
          answered(Hook::render, result, host_) + " with " + std::to_string(host_.texts().size()) + " texts";
      again ? skip("not reached: " + what) : fail(what);
    }
    if (!host_.fault().empty()) {
      fail(host_.fault());
    }
    if (i == 1 && host_.texts().front() != first) {
      fail("the second text differs from the first");
    }
    first = host_.texts().front();
  }
}

void CheckWalk::launch_plan() {
  auto in = make<hr_launch_request>();
  in.launch_json = str(launch_json_);
  in.request_text = str("Say hello.");
  hr_session* session = nullptr;
  const hr_result result = call(Hook::launch, [&] { return adapter_.launch(host_.raw(), &in, &session); });
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
  if (result != HR_OK || session == nullptr) {
    fail(answered(Hook::launch, result, host_) + (session == nullptr ? " and made no session" : ""));
  }
  if (host_.plans() != 1) {
    fail("launch gave " + std::to_string(host_.plans()) + " plans");
  }
  if ((page_.blocked.load() & hook_bit(Hook::close)) == 0) {
    call(Hook::close, [&] {
      adapter_.close(session);
      return HR_OK;
    });
  }
}

void CheckWalk::launch_same() {
  std::array<std::string, 2> plans;
  for (std::string& plan : plans) {
    LiveSession session(*this, SessionState::planned);
    plan = host_.transcript();
  }
  if (plans[0] != plans[1]) {
    fail("the second plan differs from the first");
  }
}

void CheckWalk::launch_arguments() {
  auto in = make<hr_launch_request>();
  in.launch_json = str(launch_json_);
  in.request_text = str(task_marker);
  hr_session* session = nullptr;
  const hr_result result = call(Hook::launch, [&] { return adapter_.launch(host_.raw(), &in, &session); });
  const bool shown = host_.arguments().find(task_marker) != std::string::npos;
  if (result != HR_OK || session == nullptr) {
    skip("not reached: " + answered(Hook::launch, result, host_));
  }
  if (shown) {
    fail("the request text is in an argument or variable, which every process of the machine can read");
  }
}

// ---- dispatch
// --------------------------------------------------------------------------------------------------------

void CheckWalk::run(std::size_t step) {
  if (step >= plugins::step_pairs && step < plugins::step_snapshot_same) {
    const std::size_t index = step - plugins::step_pairs;
    return pair(static_cast<SessionState>(index / plugins::pair_hooks.size()),
                plugins::pair_hooks[index % plugins::pair_hooks.size()]);
  }
  switch (step) {
    case plugins::step_probe_begin:
      return probe_begin();
    case plugins::step_probe_walk:
      return probe_walk();
    case plugins::step_probe_unasked:
      return probe_unasked();
    case plugins::step_probe_close:
      return probe_close();
    case plugins::step_render_text:
      return render(false);
    case plugins::step_render_pure:
      return render(true);
    case plugins::step_launch_plan:
      return launch_plan();
    case plugins::step_launch_same:
      return launch_same();
    case plugins::step_launch_arguments:
      return launch_arguments();
    case plugins::step_snapshot_same:
      return snapshot_same();
    case plugins::step_reattach_quiet:
      return reattach_quiet();
    case plugins::step_reattach_broken:
      return reattach_broken();
    case plugins::step_records_any:
      return records_any();
    case plugins::step_records_same:
      return records_same();
    case plugins::step_end_verdict:
      return end_verdict();
    default:
      return;
  }
}

}  // namespace hitchrail::runner
