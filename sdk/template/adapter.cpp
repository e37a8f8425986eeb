// An adapter for a harness that prints lines and ends. Rename it, then change what your harness does
// differently:
//   1. provider id below and in my-harness.yaml
//   2. VersionProbe: which command tells the version, and how the line looks
//   3. launch: arguments, variables, how the request gets in (never as an argument: those can be read by
//   everybody)
//   4. map_events: what a record means; on_end: what counts as success
#include <hitchrail/adapter.hpp>
#include <hitchrail/render.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace {

namespace sdk = hitchrail::sdk;

class VersionProbe : public sdk::Probe {
 public:
  void on_step(sdk::Host& host, const hr_probe_step_result& result) override {
    if (result.outcome != HR_STEP_EXITED || result.code != 0) {
      throw sdk::Failure(HR_E_UNSUPPORTED, "provider-probe-failed", "--version did not end with exit code 0");
    }
    host.probe_result(
        R"({"providerVersion":"unknown","protocolVersion":"lines/v1","state":"degraded","capabilities":[)"
        R"({"id":"run.start","state":"supported","reason":"started with the request on its input"},)"
        R"({"id":"run.complete","state":"advisory","reason":"only the exit code tells"}]})");
  }
};

class LineSession : public sdk::Session {
 public:
  LineSession() = default;
  // A session is made of its last snapshot after every restart: whatever map_events needs to know must be in
  // it.
  explicit LineSession(std::string_view snapshot) {
    if (snapshot.size() < 2 || snapshot.substr(0, 2) != "1 ") {
      throw sdk::Failure(HR_E_ARGUMENT, "snapshot-unknown", "not a snapshot of this adapter");
    }
    failed_ = snapshot.substr(2, 6) == "failed";
    last_ = snapshot.substr(snapshot.find('\n') == std::string_view::npos ? snapshot.size()
                                                                          : snapshot.find('\n') + 1);
  }

  void map_events(sdk::Host& host, const hr_record& record) override {
    auto event = sdk::make<hr_event>();
    event.kind = record.stream == HR_STREAM_STDERR ? HR_EVENT_STREAM_STDERR : HR_EVENT_STREAM_STDOUT;
    event.flags = HR_EVENT_RAW_RECORD;  // by reference: a record may be any bytes
    host.emit(event);
    if (record.stream == HR_STREAM_STDOUT && is_printable(sdk::view(record.bytes))) {
      last_ = sdk::view(record.bytes);
    }
  }
  void on_exit(sdk::Host&, const hr_exit& exit) override {
    failed_ = exit.kind != HR_EXIT_CODE || exit.value != 0;
  }
  void on_end(sdk::Host& host) override {
    auto verdict = sdk::make<hr_verdict>();
    verdict.status = failed_ ? HR_VERDICT_FAILED : HR_VERDICT_SUCCESS;
    verdict.summary = sdk::str(last_);
    if (failed_) {
      verdict.code = sdk::str("harness-failed");
      verdict.error = sdk::str("the harness did not end with exit code 0");
    }
    host.finish(verdict);
  }
  [[nodiscard]] std::string snapshot(sdk::Host&) const override {
    return std::string(failed_ ? "1 failed" : "1 good") + "\n" + last_;
  }

 private:
  // Text that an event or a verdict may carry must be UTF-8; this keeps to ASCII and to what fits a line.
  static bool is_printable(std::string_view text) {
    constexpr std::size_t most = 500;
    if (text.empty() || text.size() > most) {
      return false;
    }
    for (const char c : text) {
      if (c < ' ' || c > '~') {
        return false;
      }
    }
    return true;
  }

  bool failed_ = false;
  std::string last_;
};

struct MyHarness {
  static std::unique_ptr<sdk::Probe> probe(sdk::Host& host, const hr_probe_request&) {
    host.probe_command(1, {"--version"});
    return std::make_unique<VersionProbe>();
  }
  static std::string render(sdk::Host&, const hr_render_request& request) {
    return sdk::render_task(request, {"My Harness", "What you print is the report."});
  }
  static std::unique_ptr<sdk::Session> launch(sdk::Host& host, const hr_launch_request& request) {
    if (request.mode != HR_LAUNCH_NEW) {
      throw sdk::Failure(HR_E_UNSUPPORTED, "resume-unsupported", "this harness has no conversations");
    }
    constexpr std::uint32_t grace_ms = 5000;
    constexpr std::int32_t sigterm = 15;
    sdk::Plan plan;
    plan.env_home("HOME").env_literal("LC_ALL", "C.UTF-8");
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE);
    plan.stream(HR_STREAM_STDERR, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE);
    plan.input(sdk::view(request.request_text)).input("\n").close_input();
    plan.stop_signal(sigterm, grace_ms);
    host.plan(plan);
    return std::make_unique<LineSession>();
  }
  static std::unique_ptr<sdk::Session> reattach(sdk::Host&, const hr_reattach& request) {
    return std::make_unique<LineSession>(sdk::view(request.snapshot));
  }
};

}  // namespace

HITCHRAIL_ADAPTER(MyHarness, "my-harness", "My harness", "0.1.0");
