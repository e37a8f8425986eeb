// codex-cli: drives `codex exec --json` of codex-cli 0.145.0 through the adapter ABI. No I/O of its own.

#include "hitchrail/adapter.hpp"

#include <array>
#include <csignal>

#include "config.hpp"
#include "render.hpp"
#include "session.hpp"

namespace hitchrail::codex_cli {
namespace {

constexpr std::string_view version_line = "codex-cli 0.145.0";
constexpr std::string_view provider_version = "0.145.0";
constexpr std::string_view protocol_version = "codex-exec-json/v1";
constexpr std::uint32_t version_step = 1;
constexpr std::uint32_t stdout_cap = 8u << 20;
constexpr std::uint32_t stderr_cap = 64u << 10;
constexpr std::uint32_t file_cap = 8u << 20;

struct Capability {
  std::string_view id, state, reason;
};

constexpr std::array capabilities{
    Capability{"run.start", "supported", "codex exec, tested with 0.145.0"},
    Capability{"run.stop", "supported", "SIGINT ends the turn within a fraction of a second"},
    Capability{"run.status", "supported", "records of the stream"},
    Capability{"run.logs", "supported", "stdout and stderr are journaled"},
    Capability{"run.complete", "supported",
               "turn.completed and turn.failed, checked against the session file"},
    Capability{"run.streaming", "supported", "one record an item; no text deltas"},
    Capability{"run.structured-events", "supported", "JSON lines"},
    Capability{"run.follow-up", "supported", "by a resumed run"},
    Capability{"run.resume", "supported", "exec resume, the answered thread id is compared"},
    Capability{"run.reattach", "supported", "the session's snapshot"},
    Capability{"run.interrupt", "advisory", "SIGINT ends the process too; the conversation can be resumed"},
    Capability{"run.steer", "unsupported", "codex exec takes one message"},
    Capability{"run.fork", "unsupported", "codex exec cannot begin from another conversation's history"},
    Capability{"run.compact", "unsupported", "no such operation in codex exec"},
    Capability{"run.archive", "unsupported", "no such operation in codex exec"},
    Capability{"run.close", "unsupported", "a run ends by itself"},
    Capability{"run.approvals", "unsupported", "codex exec never asks"},
    Capability{"run.elicitation", "unsupported", "codex exec never asks"},
    Capability{"tool.calls", "supported", "command_execution, file_change and web_search items"},
    Capability{"tool.mcp", "supported", "mcp_tool_call items"},
    Capability{"output.structured", "advisory", "the answer is not validated by the program"},
    Capability{"usage.tokens", "supported", "turn.completed, cumulative over the conversation"},
    Capability{"artifact.write", "supported", "files below the worktree"},
    Capability{"workspace.worktrees", "supported", "runs in any worktree"},
    Capability{"filesystem.read", "advisory", "the program's own sandbox is off below an enforced boundary"},
    Capability{"filesystem.write", "advisory", "the program's own sandbox is off below an enforced boundary"},
    Capability{"environment.allowlist", "supported", "the environment is built from empty"},
};

std::string probe_result() {
  std::string out = "{\"providerVersion\":\"" + std::string(provider_version) + "\",\"protocolVersion\":\"" +
                    std::string(protocol_version) + "\",\"capabilities\":[";
  for (const Capability& capability : capabilities) {
    out += out.back() == '[' ? "{\"id\":" : ",{\"id\":";
    json::append_quoted(out, capability.id);
    out += ",\"state\":";
    json::append_quoted(out, capability.state);
    out += ",\"reason\":";
    json::append_quoted(out, capability.reason);
    out += "}";
  }
  return out + "],\"diagnostics\":[]}";
}

class VersionProbe : public sdk::Probe {
 public:
  void on_step(sdk::Host& host, const hr_probe_step_result& result) override {
    check_outcome(result);
    std::string_view line = sdk::view(result.stdout_bytes);
    line = line.substr(0, line.find('\n'));
    if (line != version_line) {
      const std::string shown =
          json::valid_utf8(line) ? cut(line, 100) : std::string("text that is not UTF-8");
      throw sdk::Failure(
          HR_E_UNSUPPORTED, "provider-version-unsupported",
          "this adapter is for \"" + std::string(version_line) + "\", the executable says \"" + shown + "\"");
    }
    host.probe_result(probe_result());
  }

 private:
  static void check_outcome(const hr_probe_step_result& result) {
    const auto fail = [](const char* code, const std::string& text) {
      throw sdk::Failure(HR_E_UNSUPPORTED, code, "codex --version " + text);
    };
    switch (result.outcome) {
      case HR_STEP_TIMED_OUT:
        fail("provider-probe-timeout", "did not end in time");
        break;
      case HR_STEP_NOT_STARTED:
        fail("provider-probe-not-started", "could not be started");
        break;
      case HR_STEP_SIGNALED:
        fail("provider-probe-failed", "was ended by signal " + std::to_string(result.code));
        break;
      default:
        break;
    }
    if (result.outcome != HR_STEP_EXITED || result.code != 0) {
      fail("provider-probe-failed", "ended with exit code " + std::to_string(result.code));
    }
    if (result.stdout_truncated != 0) {
      fail("provider-probe-output", "printed more than a version");
    }
  }
};

// HOME, PATH, TMPDIR and what git needs are the boundary's and come from the host.
void plan_environment(sdk::Plan& plan, const Launch& launch) {
  plan.env_home("CODEX_HOME", codex_home).env_literal("TERM", "dumb").env_literal("NO_COLOR", "1");
  plan.env_from_host("LANG").env_from_host("LC_ALL");
  for (const std::string& name : launch.credentials) {
    plan.env_from_host(name);
  }
}

struct Codex {
  static std::unique_ptr<sdk::Probe> probe(sdk::Host& host, const hr_probe_request& /*request*/) {
    host.probe_command(version_step, {"--version"});
    return std::make_unique<VersionProbe>();
  }

  static std::string render(sdk::Host& /*host*/, const hr_render_request& request) {
    return render_task(request);
  }

  static std::unique_ptr<sdk::Session> launch(sdk::Host& host, const hr_launch_request& request) {
    const Launch launch = read_launch(sdk::view(request.launch_json), request.mode);
    sdk::Plan plan;
    for (const std::string& argument : arguments(launch)) {
      plan.arg(argument);
    }
    plan_environment(plan, launch);
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, stdout_cap);
    plan.stream(HR_STREAM_STDERR, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, stderr_cap);
    plan.input(sdk::view(request.request_text)).close_input();
    plan.stop_signal(SIGINT, 3000).stop_signal(SIGTERM, 2000);
    plan.home_file(std::string(codex_home) + "/config.toml", config_toml(launch));
    plan.file_stream(session_files, HR_FRAME_LINES, HR_FILE_CARRY, file_cap);
    plan.file_stream(last_message_file, HR_FRAME_WHOLE, 0, file_cap);
    host.plan(plan);
    return std::make_unique<CodexSession>(launch);
  }

  static std::unique_ptr<sdk::Session> reattach(sdk::Host& /*host*/, const hr_reattach& request) {
    auto state = decode(sdk::view(request.snapshot));
    if (!state) {
      throw sdk::Failure(HR_E_ARGUMENT, "snapshot-invalid",
                         "the snapshot is not one of this adapter's version");
    }
    return std::make_unique<CodexSession>(std::move(*state));
  }
};

}  // namespace
}  // namespace hitchrail::codex_cli

HITCHRAIL_ADAPTER(::hitchrail::codex_cli::Codex, "codex-cli", "Codex CLI", "0.1.0");
