// An adapter that does what adapters must not: each behaviour is asked for by the request text (planning) or
// the record (live).

#include <hitchrail/adapter.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace {

namespace sdk = hitchrail::sdk;

void misbehave(std::string_view how) {
  if (how == "abort") {
    std::abort();
  }
  if (how == "exit") {
    ::_exit(7);
  }
  if (how == "loop") {
    for (;;) {
      asm volatile("");
    }
  }
  if (how == "sleep") {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (how == "refuse") {
    throw sdk::Failure(HR_E_ARGUMENT, "model-unknown", "there is no such model");
  }
  if (how == "fail") {
    throw sdk::Failure(HR_E_INTERNAL, "broken", "the adapter is broken");
  }
}

class OddProbe : public sdk::Probe {
 public:
  explicit OddProbe(bool silent) : silent_(silent) {}
  void on_step(sdk::Host& host, const hr_probe_step_result& result) override {
    if (result.step_id == 1) {
      host.probe_command(2, {"second", "\xff"}, 100, 10);
      host.log(HR_LOG_WARNING, "one more");
      return;
    }
    if (!silent_) {
      host.probe_result(R"({"providerVersion":")" + std::string(sdk::view(result.stdout_bytes)) + "\"}");
    }
  }

 private:
  bool silent_;
};

class OddSession : public sdk::Session {
 public:
  void map_events(sdk::Host& host, const hr_record& record) override {
    auto event = sdk::make<hr_event>();
    event.kind = HR_EVENT_PROGRESS;
    const std::string_view bytes = sdk::view(record.bytes);
    std::string text(bytes);
    if (bytes == "clock") {
      text = std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    }
    event.text = sdk::str(text);
    host.emit(event);
    misbehave(bytes);
    if (bytes == "secret") {
      throw sdk::Failure(HR_E_PROTOCOL, "leak", "the value was open-sesame-123");
    }
  }
  void on_end(sdk::Host&) override {}  // gives no verdict
  [[nodiscard]] std::string snapshot(sdk::Host&) const override { return "odd"; }
};

void add_plan_fault(sdk::Plan& plan, std::string_view how) {
  if (how == "dotdot") {
    plan.home_file("a/../../b", "x");
  } else if (how == "absolute") {
    plan.home_file("/etc/passwd", "x");
  } else if (how == "nul") {
    plan.arg(std::string_view("a\0b", 3));
  } else if (how == "env") {
    plan.env_literal("lower", "x");
  } else if (how == "env-twice") {
    plan.env_literal("A", "x").env_literal("A", "y");
  } else if (how == "stream-twice") {
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES).stream(HR_STREAM_STDOUT, HR_FRAME_LINES);
  } else if (how == "cap") {
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_FAIL, HR_MAX_RECORD_CAP + 1);
  } else if (how == "pattern") {
    plan.file_stream("../*.jsonl", HR_FRAME_LINES);
  } else if (how == "stop-signal") {
    plan.stop_signal(64, 100);
  } else if (how == "argv") {
    for (int i = 0; i < 257; ++i) {
      plan.arg("x");
    }
  } else if (how == "secret-name") {
    plan.input_secret("");
  }
}

struct Odd {
  static std::unique_ptr<sdk::Probe> probe(sdk::Host& host, const hr_probe_request& request) {
    const std::string_view text = sdk::view(request.request_json);
    misbehave(text);
    if (text != "no-steps") {
      host.probe_command(1, {"first"});
    }
    return std::make_unique<OddProbe>(text == "silent");
  }
  static std::string render(sdk::Host&, const hr_render_request& request) {
    misbehave(sdk::view(request.envelope_json));
    return std::string(sdk::view(request.envelope_json));
  }
  static std::unique_ptr<sdk::Session> launch(sdk::Host& host, const hr_launch_request& request) {
    const std::string_view how = sdk::view(request.request_text);
    misbehave(how);
    sdk::Plan plan;
    plan.arg("--json").input(how).input_secret("KEY", HR_ENCODE_JSON_STRING);
    plan.env_from_host("LANG").env_literal("B", "\xfe").env_home("HOME", "sub/dir");
    plan.file_stream("sessions/*/r-?.jsonl", HR_FRAME_LINES, HR_FILE_CARRY);
    plan.home_file("config.toml", std::string_view("a\0b", 3)).stop_send("bye\n", 10).stop_signal(15, 20);
    add_plan_fault(plan, how);
    host.plan(plan);
    host.set_timer(3, 1500);
    if (host.raw()->emit(host.raw()->ctx, nullptr) != HR_E_STATE) {
      throw sdk::Failure(HR_E_INTERNAL, "emit-allowed", "emit must not be allowed in launch");
    }
    return std::make_unique<OddSession>();
  }
  static std::unique_ptr<sdk::Session> reattach(sdk::Host& host, const hr_reattach&) {
    auto event = sdk::make<hr_event>();
    event.kind = HR_EVENT_PROGRESS;
    if (host.raw()->emit(host.raw()->ctx, &event) != HR_E_STATE) {
      throw sdk::Failure(HR_E_INTERNAL, "emit-allowed", "emit must not be allowed in reattach");
    }
    return std::make_unique<OddSession>();
  }
};

}  // namespace

HITCHRAIL_ADAPTER(Odd, "odd", "Odd", "0.0.1");
