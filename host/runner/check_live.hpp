#pragma once
// Inside the checker only: how a step calls the adapter, and the objects it makes for one step.

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "runner/check_walk.hpp"
#include "runner/checks.hpp"

namespace hitchrail::runner {

[[noreturn]] inline void fail(std::string detail) {
  throw StepEnd{plugins::StepResult::failed, std::move(detail)};
}
[[noreturn]] inline void skip(std::string detail) {
  throw StepEnd{plugins::StepResult::skipped, std::move(detail)};
}

inline std::string answered(plugins::Hook hook, hr_result result, const CheckHost& host) {
  return std::string(plugins::hook_name(hook)) + " answered " + result_name(result) + host.reason();
}

template <class T>
T make() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

template <class Body>
hr_result CheckWalk::call(plugins::Hook hook, Body&& body) {
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
    in.request_json = str(walk_.standard_probe_request);
    result_ = walk_.call(plugins::Hook::probe,
                         [&] { return walk_.adapter_.probe(walk_.host_.raw(), &in, &probe_); });
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
    walk_.call(plugins::Hook::probe_close, [&] {
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
  LiveSession(CheckWalk& walk, plugins::SessionState state) : walk_(walk) {
    launch();
    if (state == plugins::SessionState::planned) {
      return;
    }
    const std::string snapshot = take_snapshot();
    close();
    reattach(snapshot, HR_STATE_OPEN);
    if (state != plugins::SessionState::open) {
      reach(plugins::Hook::on_exit);
    }
    if (state == plugins::SessionState::ended) {
      reach(plugins::Hook::on_end);
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
    walk_.call(plugins::Hook::close, [&] {
      walk_.adapter_.close(session);
      return HR_OK;
    });
  }
  // "" and result() tell when it failed.
  std::string take_snapshot() {
    result_ = walk_.invoke(plugins::Hook::snapshot, session_);
    if (result_ != HR_OK || walk_.host_.snapshots().size() != 1) {
      skip("not reached: " + answered(plugins::Hook::snapshot, result_, walk_.host_) + " with " +
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
    result_ = walk_.call(plugins::Hook::launch,
                         [&] { return walk_.adapter_.launch(walk_.host_.raw(), &in, &session_); });
    if (result_ != HR_OK || session_ == nullptr) {
      session_ = nullptr;
      skip("not reached: " + answered(plugins::Hook::launch, result_, walk_.host_));
    }
  }
  void reattach(std::string_view snapshot, std::uint32_t state) {
    auto in = make<hr_reattach>();
    in.snapshot = str(snapshot);
    in.state = state;
    result_ = walk_.call(plugins::Hook::reattach,
                         [&] { return walk_.adapter_.reattach(walk_.host_.raw(), &in, &session_); });
    if (result_ != HR_OK || session_ == nullptr) {
      session_ = nullptr;
      skip("not reached: " + answered(plugins::Hook::reattach, result_, walk_.host_));
    }
  }
  void reach(plugins::Hook hook) {
    result_ = walk_.invoke(hook, session_);
    if (result_ != HR_OK) {
      skip("not reached: " + answered(hook, result_, walk_.host_));
    }
  }

  CheckWalk& walk_;
  hr_session* session_ = nullptr;
  hr_result result_ = HR_E_INTERNAL;
};

}  // namespace hitchrail::runner
