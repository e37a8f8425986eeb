#include "runner/check_walk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>

#include "core/json.hpp"
#include "runner/check_schema.hpp"
#include "runner/checks.hpp"

namespace hitchrail::runner {

using plugins::Hook;
using plugins::hook_bit;
using plugins::hook_name;
using plugins::SessionState;
using plugins::StepResult;

namespace {

constexpr std::string_view task_marker = "hitchrail-check-task-6b1f";
constexpr std::string_view envelope =
    R"({"schemaVersion":"task-envelope/v1","taskId":"task_check","attemptId":"attempt_check",)"
    R"("subject":{"title":"Check","objective":"Check","message":"Say hello."},"constraints":[],"acceptanceCriteria":[]})";
constexpr std::string_view standard_probe_request =
    R"({"schemaVersion":"probe-request/v1","profileId":"check","executable":"/usr/bin/true","platform":"linux"})";
constexpr std::size_t most_probe_steps = 32;

[[noreturn]] void fail(std::string detail) {
  throw StepEnd{StepResult::failed, std::move(detail)};
}
[[noreturn]] void skip(std::string detail) {
  throw StepEnd{StepResult::skipped, std::move(detail)};
}

std::string answered(Hook hook, hr_result result, const CheckHost& host) {
  return std::string(hook_name(hook)) + " answered " + result_name(result) + host.reason();
}

// In an allowed state an adapter may dislike the argument; it may not deny the state or blame itself.
bool is_sound_answer(hr_result result) {
  return result == HR_OK || result == HR_E_ARGUMENT || result == HR_E_UNSUPPORTED ||
         result == HR_E_PROTOCOL || result == HR_E_LIMIT;
}

template <class T>
T make() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

hr_record record_of(std::string_view bytes, std::uint32_t stream = HR_STREAM_STDOUT,
                    std::uint32_t flags = HR_RECORD_REPLAYED, std::uint64_t offset = 0) {
  auto record = make<hr_record>();
  record.stream = stream;
  record.flags = flags;
  record.offset = offset;
  record.bytes = str(bytes);
  return record;
}

struct OddRecord {
  std::string bytes;
  std::uint32_t stream;
  std::uint32_t flags;
};
std::vector<OddRecord> odd_records() {
  constexpr std::size_t deep = 100'000;
  constexpr std::size_t large = 1u << 20;
  return {
      {"", HR_STREAM_STDOUT, 0},
      {"{}", HR_STREAM_STDOUT, 0},
      {"[]", HR_STREAM_STDOUT, 0},
      {"null", HR_STREAM_STDOUT, 0},
      {"{\"type\":", HR_STREAM_STDOUT, HR_RECORD_UNTERMINATED},
      {"{\"type\":\"\\u0000\",\"type\":1}", HR_STREAM_STDOUT, 0},
      {std::string("\0\xff\xfe\x80{", 5), HR_STREAM_STDOUT, 0},
      {std::string(deep, '['), HR_STREAM_STDOUT, 0},
      {std::string(large, 'a'), HR_STREAM_STDOUT, HR_RECORD_TRUNCATED},
      {"plain text", HR_STREAM_STDERR, 0},
      {"", HR_STREAM_FILE_FIRST, HR_RECORD_ABSENT},
      {"{\"type\":\"x\"}", HR_STREAM_FILE_FIRST, 0},
      {"?", 4242, 0},
  };
}

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

template <class Body>
hr_result CheckWalk::call(Hook hook, Body&& body) {
  need(hook);
  host_.begin(hook);
  page_.calls.fetch_add(1);
  page_.hook.store(static_cast<std::uint32_t>(hook));
  hr_result result = HR_E_INTERNAL;
  std::string thrown;
  try {
    result = body();
  } catch (const std::exception& error) {
    thrown = std::string("let an exception cross the border: ") + error.what();
  } catch (...) {
    thrown = "let something thrown cross the border";
  }
  page_.hook.store(0);
  if (!thrown.empty()) {
    foul(hook, thrown);
  }
  look_around(hook);
  return result;
}

// A probe that is closed whatever happens, unless closing is what must not be done again.
class LiveProbe {
 public:
  explicit LiveProbe(CheckWalk& walk) : walk_(walk) {
    auto in = make<hr_probe_request>();
    in.request_json = str(standard_probe_request);
    result_ = walk_.call(Hook::probe, [&] { return walk_.adapter_.probe(walk_.host_.raw(), &in, &probe_); });
  }
  LiveProbe(const LiveProbe&) = delete;
  LiveProbe& operator=(const LiveProbe&) = delete;
  ~LiveProbe() {
    if (probe_ != nullptr && std::uncaught_exceptions() == 0) {
      try {
        close();
      } catch (const StepEnd&) {  // probe.close finds it again and reports it
      }
    }
  }
  void close() {
    hr_probe* probe = std::exchange(probe_, nullptr);
    walk_.call(Hook::probe_close, [&] {
      walk_.adapter_.probe_close(probe);
      return HR_OK;
    });
  }
  [[nodiscard]] hr_probe* get() const { return probe_; }
  [[nodiscard]] hr_result result() const { return result_; }

 private:
  CheckWalk& walk_;
  hr_probe* probe_ = nullptr;
  hr_result result_ = HR_E_INTERNAL;
};

// A session in a state of the table, made from nothing: launch, snapshot, reattach, on_exit, on_end.
class LiveSession {
 public:
  LiveSession(CheckWalk& walk, SessionState state) : walk_(walk) {
    launch();
    if (state == SessionState::planned) {
      return;
    }
    const std::string snapshot = take_snapshot();
    close();
    reattach(snapshot, HR_STATE_OPEN);
    if (state != SessionState::open) {
      reach(Hook::on_exit);
    }
    if (state == SessionState::ended) {
      reach(Hook::on_end);
    }
  }
  LiveSession(CheckWalk& walk, std::string_view snapshot, std::uint32_t state) : walk_(walk) {
    reattach(snapshot, state);
  }
  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;
  ~LiveSession() {
    if (session_ != nullptr && std::uncaught_exceptions() == 0) {
      try {
        close();
      } catch (const StepEnd&) {  // the pairs of close find it again and report it
      }
    }
  }
  void close() {
    hr_session* session = std::exchange(session_, nullptr);
    walk_.call(Hook::close, [&] {
      walk_.adapter_.close(session);
      return HR_OK;
    });
  }
  // "" and result() tell when it failed.
  std::string take_snapshot() {
    result_ = walk_.invoke(Hook::snapshot, session_);
    if (result_ != HR_OK || walk_.host_.snapshots().size() != 1) {
      skip("not reached: " + answered(Hook::snapshot, result_, walk_.host_) + " with " +
           std::to_string(walk_.host_.snapshots().size()) + " snapshots");
    }
    return walk_.host_.snapshots().front();
  }
  [[nodiscard]] hr_session* get() const { return session_; }

 private:
  void launch() {
    auto in = make<hr_launch_request>();
    in.launch_json = str(walk_.launch_json_);
    in.request_text = str("Say hello.");
    result_ =
        walk_.call(Hook::launch, [&] { return walk_.adapter_.launch(walk_.host_.raw(), &in, &session_); });
    if (result_ != HR_OK || session_ == nullptr) {
      session_ = nullptr;
      skip("not reached: " + answered(Hook::launch, result_, walk_.host_));
    }
  }
  void reattach(std::string_view snapshot, std::uint32_t state) {
    auto in = make<hr_reattach>();
    in.snapshot = str(snapshot);
    in.state = state;
    result_ = walk_.call(Hook::reattach,
                         [&] { return walk_.adapter_.reattach(walk_.host_.raw(), &in, &session_); });
    if (result_ != HR_OK || session_ == nullptr) {
      session_ = nullptr;
      skip("not reached: " + answered(Hook::reattach, result_, walk_.host_));
    }
  }
  void reach(Hook hook) {
    result_ = walk_.invoke(hook, session_);
    if (result_ != HR_OK) {
      skip("not reached: " + answered(hook, result_, walk_.host_));
    }
  }

  CheckWalk& walk_;
  hr_session* session_ = nullptr;
  hr_result result_ = HR_E_INTERNAL;
};

// Any session hook with a plain argument; HR_OK for an optional hook the adapter lacks.
hr_result CheckWalk::invoke(Hook hook, hr_session* session) {
  const hr_host* host = host_.raw();
  return call(hook, [&]() -> hr_result {
    switch (hook) {
      case Hook::snapshot:
        return adapter_.snapshot(host, session);
      case Hook::map_events: {
        const hr_record record = record_of("{}");
        return adapter_.map_events(host, session, &record);
      }
      case Hook::on_exit: {
        auto exit = make<hr_exit>();
        exit.kind = HR_EXIT_CODE;
        return adapter_.on_exit(host, session, &exit);
      }
      case Hook::on_end:
        return adapter_.on_end(host, session);
      case Hook::control: {
        auto control = make<hr_control>();
        control.kind = HR_CONTROL_STEER;
        control.control_id = 1;
        control.text = str("And say it twice.");
        return adapter_.control == nullptr ? HR_OK : adapter_.control(host, session, &control);
      }
      case Hook::on_decision: {
        auto decision = make<hr_decision>();
        decision.decision = HR_DECISION_DENY;
        decision.approval_id = str("never-asked");
        return adapter_.on_decision == nullptr ? HR_OK : adapter_.on_decision(host, session, &decision);
      }
      case Hook::on_call_result: {
        auto result = make<hr_call_result>();
        result.outcome = HR_CALL_REFUSED;
        result.call_id = 4711;
        result.result_json = str("{}");
        return adapter_.on_call_result == nullptr ? HR_OK : adapter_.on_call_result(host, session, &result);
      }
      case Hook::on_timer:
        return adapter_.on_timer == nullptr ? HR_OK : adapter_.on_timer(host, session, 4711);
      case Hook::on_transport: {
        auto event = make<hr_transport_event>();
        event.kind = HR_TRANSPORT_OPEN;
        event.generation = 1;
        return adapter_.on_transport == nullptr ? HR_OK : adapter_.on_transport(host, session, &event);
      }
      default:
        return HR_E_INTERNAL;
    }
  });
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

// ---- the state table
// -----------------------------------------------------------------------------------------------

void CheckWalk::pair(SessionState state, Hook hook) {
  need(hook);
  LiveSession session(*this, state);
  if (hook == Hook::close) {
    session.close();
    return;
  }
  const hr_result result = invoke(hook, session.get());
  const std::string what = answered(hook, result, host_) + " in state " + plugins::state_name(state);
  const bool offered = !(hook == Hook::control && adapter_.control == nullptr) &&
                       !(hook == Hook::on_decision && adapter_.on_decision == nullptr) &&
                       !(hook == Hook::on_call_result && adapter_.on_call_result == nullptr) &&
                       !(hook == Hook::on_timer && adapter_.on_timer == nullptr) &&
                       !(hook == Hook::on_transport && adapter_.on_transport == nullptr);
  if (!offered) {
    return;
  }
  if (!plugins::pair_allowed(state, hook)) {
    if (result != HR_E_STATE) {
      fail(what + ", expected HR_E_STATE");
    }
    if (!host_.transcript().empty()) {
      fail(what + " after side effects: " + host_.transcript());
    }
    return;
  }
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
  const bool must_succeed = hook == Hook::snapshot || hook == Hook::on_exit || hook == Hook::on_end;
  if (must_succeed ? result != HR_OK : !is_sound_answer(result)) {
    fail(what);
  }
  if (hook == Hook::snapshot && host_.snapshots().size() != 1) {
    fail("snapshot gave " + std::to_string(host_.snapshots().size()) + " snapshots");
  }
}

void CheckWalk::snapshot_same() {
  LiveSession planned(*this, SessionState::planned);
  const std::string first = planned.take_snapshot();
  if (planned.take_snapshot() != first) {
    fail("the second snapshot of an unchanged session differs from the first");
  }
  LiveSession open(*this, first, HR_STATE_OPEN);
  if (open.take_snapshot() != first) {
    fail("the snapshot after reattach differs from the one it was made of");
  }
}

void CheckWalk::reattach_quiet() {
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  LiveSession open(*this, snapshot, HR_STATE_OPEN);
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
}

void CheckWalk::reattach_broken() {
  for (const std::string_view bytes :
       {std::string_view(), std::string_view("\0\xff{", 3), std::string_view("{\"a\":[")}) {
    auto in = make<hr_reattach>();
    in.snapshot = str(bytes);
    in.state = HR_STATE_OPEN;
    hr_session* session = nullptr;
    const hr_result result =
        call(Hook::reattach, [&] { return adapter_.reattach(host_.raw(), &in, &session); });
    if (result == HR_OK && session != nullptr) {
      call(Hook::close, [&] {
        adapter_.close(session);
        return HR_OK;
      });
    } else if (result == HR_OK) {
      fail("reattach answered HR_OK and made no session");
    }
  }
}

// ---- records and the end
// ---------------------------------------------------------------------------------------------

void CheckWalk::records_any() {
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  for (const OddRecord& odd : odd_records()) {
    LiveSession session(*this, snapshot,
                        odd.stream >= HR_STREAM_FILE_FIRST ? HR_STATE_EXITED : HR_STATE_OPEN);
    const hr_record record = record_of(odd.bytes, odd.stream, odd.flags);
    const hr_result result =
        call(Hook::map_events, [&] { return adapter_.map_events(host_.raw(), session.get(), &record); });
    if (!host_.fault().empty()) {
      fail(host_.fault());
    }
    if (!is_sound_answer(result)) {
      fail(answered(Hook::map_events, result, host_) + " for a record of " +
           std::to_string(odd.bytes.size()) + " bytes");
    }
  }
}

std::string CheckWalk::run_records() {
  std::string all;
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  LiveSession session(*this, snapshot, HR_STATE_OPEN);
  std::uint64_t offset = 0;
  for (const OddRecord& odd : odd_records()) {
    if (odd.stream != HR_STREAM_STDOUT) {
      continue;
    }
    const hr_record record = record_of(odd.bytes, odd.stream, odd.flags, offset);
    offset += odd.bytes.size() + 1;
    const hr_result result =
        call(Hook::map_events, [&] { return adapter_.map_events(host_.raw(), session.get(), &record); });
    all += std::to_string(result) + "\n" + host_.transcript();
    if (result != HR_OK) {
      break;
    }
  }
  return all;
}

void CheckWalk::records_same() {
  if (run_records() != run_records()) {
    fail("the second run of the same records gave other callbacks");
  }
}

void CheckWalk::end_verdict() {
  LiveSession exited(*this, SessionState::exited);
  const hr_result result = invoke(Hook::on_end, exited.get());
  if (result != HR_OK) {
    skip("not reached: " + answered(Hook::on_end, result, host_));
  }
  if (host_.verdicts() != 1) {
    fail("on_end called finish " + std::to_string(host_.verdicts()) + " times");
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
