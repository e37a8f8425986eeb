#pragma once
// The host's side of the planning runner: one confined child (`hitchrail-runner --plan`) that holds one
// sealed adapter and answers probe, render and launch. Links as hitchrail_planner; depends on core only.
//
// Promises: the adapter's code never runs in the caller; the child is granted nothing (no file, socket, exec,
// fork); it is killed and reaped when the Planner goes; every answer is checked against the bounds of
// adapter.h before it is returned; a hook that uses more than HR_HOOK_CPU_MS of CPU or 30 s of time is
// killed. Refuses (Error.object is the hook or the plan's field):
//   adapter-load-failed    the child could not confine itself or load the library; detail says why
//   adapter-crashed        the child died in this hook (detail: the signal)
//   adapter-watchdog       the hook used up its time
//   adapter-hook-failed    the hook returned a failure; detail is the reason it gave
//   <the adapter's code>   the hook refused its argument (HR_E_ARGUMENT, HR_E_UNSUPPORTED) and named a
//   kebab-case code adapter-plan-invalid   plan, steps or result out of bounds: NUL in an argument, path with
//   "..", bad name, too large adapter-protocol       the child's answer is not understood: a fault of ours,
//   or an adapter writing into our memory
// After any of the middle three the Planner is dead and every further call gives that error again.
// Not yet: dialogue steps are described but their replies are not streamed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::plugins {

// ---- the plan, as checked values (meanings: sdk/include/hitchrail/adapter.h; the numbers are the ABI's)
// -------------

struct Part {
  std::uint32_t kind = 1;      // HR_PART_BYTES, HR_PART_SECRET
  std::uint32_t encoding = 0;  // HR_ENCODE_*, secrets only
  std::string bytes;           // the bytes, or the secret's key name
};

struct EnvEntry {
  std::uint32_t source = 0;  // HR_ENV_FROM_HOST, HR_ENV_LITERAL, HR_ENV_HOME
  std::string name;          // ^[A-Z_][A-Z0-9_]{0,79}$, each once
  std::string value;
};

struct StreamPlan {
  std::uint32_t stream = 0;      // HR_STREAM_STDOUT, HR_STREAM_STDERR, HR_STREAM_TRANSPORT; each at most once
  std::uint32_t framing = 0;     // HR_FRAME_*
  std::uint32_t overflow = 0;    // HR_OVERFLOW_*
  std::uint32_t record_cap = 0;  // never 0: the default is filled in
};

struct FileStreamPlan {
  std::uint32_t stream = 0;  // HR_STREAM_FILE_FIRST + n, in order, at most six
  std::uint32_t framing = 0;
  std::uint32_t record_cap = 0;
  bool carry = false;   // copied into the home of a resume
  std::string pattern;  // relative, "*" and "?" inside one component
};

struct HomeFile {
  std::string path;  // relative, no "." or ".." component
  std::string bytes;
};

struct StopStepPlan {
  std::uint32_t kind = 0;  // HR_STOP_*
  std::int32_t signal = 0;
  std::uint32_t wait_ms = 0;
  std::vector<Part> parts;
};

struct TimerPlan {  // set by launch; counts from the harness's start
  std::uint32_t id = 0;
  std::uint32_t after_ms = 0;
};

struct LaunchPlan {
  std::vector<std::string> argv;  // after the program; no NUL
  std::vector<EnvEntry> env;
  std::vector<StreamPlan> streams;  // stdout and stderr always present: what the adapter left out is CHUNKS
  std::vector<Part> initial_input;
  std::vector<StopStepPlan> stop;
  std::vector<HomeFile> home_files;
  std::vector<FileStreamPlan> file_streams;
  std::vector<TimerPlan> timers;  // reach the runner by its configuration (runner/config.hpp)
  bool close_input = false;
  bool needs_pipe = false;
  std::uint32_t transport = 1;  // HR_TRANSPORT_*
  std::string endpoint;
};

// The initial input and stop parts as the shim wants them: wire::OutboxPart + bytes, one after another.
std::string outbox_bytes(const std::vector<Part>& parts);

struct PlannedLaunch {
  LaunchPlan plan;
  std::string snapshot;  // of the planned session: the live runner's first reattach
};

// ---- probe
// ------------------------------------------------------------------------------------------------------------

struct ProbeStep {
  std::uint32_t kind = 0;  // HR_STEP_COMMAND, HR_STEP_DIALOGUE
  std::uint32_t step_id = 0;
  std::uint32_t timeout_ms = 5000;  // never 0
  std::uint32_t max_output = 8192;  // a stream; never 0
  std::uint32_t stop_after_records = 0;
  std::vector<std::string> argv;  // after the program
  std::string input;
};

struct ProbeStepResult {
  std::uint32_t step_id = 0;
  std::uint32_t outcome = 0;  // HR_STEP_EXITED ...
  std::int32_t code = 0;
  bool stdout_truncated = false;
  bool stderr_truncated = false;
  std::string stdout_bytes;
  std::string stderr_bytes;
};

// What a probe hook answered. Run every step in order, give each result to probe_step; steps of later answers
// come after those still waiting. The probe is over when no step waits: then one answer carried the result,
// else adapter-hook-failed.
struct ProbeReply {
  std::vector<ProbeStep> steps;
  std::optional<std::string> result_json;  // schemas/probe-result.v1.json
};

// ---- the child
// ----------------------------------------------------------------------------------------------------------

struct AdapterInfo {
  std::string provider_id, display_name, version;  // what the loaded library says; escaped only when printed
};

struct PlannerLimits {
  std::uint64_t hook_cpu_ms = 0;   // 0 = HR_HOOK_CPU_MS
  std::uint64_t hook_wall_ms = 0;  // 0 = 30000
};

class Planner {
 public:
  // runner_fd: the hitchrail-runner executable; adapter_fd: the sealed memfd. Both stay the caller's.
  // start = spawn, then ready: a caller with other work to do spawns first and asks whether it is ready
  // later. The child dies with the *thread* that spawned it (PR_SET_PDEATHSIG).
  static Result<Planner> spawn(int runner_fd, int adapter_fd, const PlannerLimits& limits = {});
  Status ready();  // the library is loaded; must have succeeded before any call below
  static Result<Planner> start(int runner_fd, int adapter_fd, const PlannerLimits& limits = {});
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;
  ~Planner();

  [[nodiscard]] const AdapterInfo& info() const;
  // Lines the adapter logged since the last call, oldest first, "level text" each.
  std::vector<std::string> take_logs();

  Result<ProbeReply> probe(std::string_view request_json);  // a second call begins a new probe
  Result<ProbeReply> probe_step(const ProbeStepResult& result);
  // mode 0 new, 1 follow-up; context: render-context/v1 or "".
  Result<std::string> render(std::string_view envelope_json, std::uint32_t mode,
                             std::string_view context_json = {});
  Result<PlannedLaunch> launch(std::string_view launch_json, std::uint32_t mode,
                               std::string_view request_text);

 private:
  struct State;
  explicit Planner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hitchrail::plugins
