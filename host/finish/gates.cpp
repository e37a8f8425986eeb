#include "finish/gates.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <optional>

#include "attempt/completion.hpp"
#include "attempt/names.hpp"
#include "boundary/boundary.hpp"
#include "boundary/verification.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "manifest/gate_command.hpp"
#include "pathfs/edit.hpp"
#include "workspace/gate_git.hpp"

namespace hitchrail::finish {
namespace {

constexpr const char* scratch_name = "gate-scratch";
constexpr std::size_t tail_bytes = 2048;
constexpr std::size_t cut_guard = 64u << 10;  // of a cut output: a secret may begin there and not end
constexpr std::int64_t ms_ns = 1'000'000;

volatile std::sig_atomic_t stopped = 0;

struct PlannedGate {
  std::string id;
  bool required = true;
  bool evidence_required = true;
  std::vector<std::string> argv;  // empty: nobody runs it
  std::int64_t timeout_ms = 0;
};
struct GatePlan {
  std::vector<PlannedGate> gates;
  std::int64_t total_ms = 0;
  std::size_t max_output = 0;
  json::Value boundary;
};

Result<std::string> attempt_path(int dirfd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(dirfd)).c_str(), path, sizeof path);
  if (size <= 0 || size == static_cast<ssize_t>(sizeof path)) {
    return errno_error("name", "attempt directory", size < 0 ? errno : ENAMETOOLONG);
  }
  return std::string(path, static_cast<std::size_t>(size));
}

Error plan_changed(std::string detail) {
  return Error{ErrorClass::failed,         "gate-plan-changed", "read the gate plan",
               "manifests/gate-plan.json", std::move(detail),   ""};
}

PlannedGate gate_of(const json::Value& value) {
  PlannedGate gate;
  gate.id = value.get("id").as_string();
  gate.required = value.get("required").as_bool(true);
  gate.evidence_required = value.get("evidenceRequired").as_bool(true);
  const json::Value& command = value.get("command");
  for (const json::Value& word : command.get("argv").items()) {
    gate.argv.push_back(word.as_string());
  }
  gate.timeout_ms = std::max<std::int64_t>(
      command.get("timeoutMs").as_int().value_or(static_cast<std::int64_t>(default_gate_ms)), 1);
  return gate;
}

Result<json::Value> read_manifest(int attempt_dirfd, const char* name, const std::string& digest) {
  HR_TRY(manifests, open_at(attempt_dirfd, "manifests", O_RDONLY | O_DIRECTORY));
  HR_TRY(text, read_file_at(manifests.get(), name, attempt::max_document));
  HR_TRY(document, json::parse(text, json::Duplicates::refuse, name));
  HR_CHECK(verify_document(document));
  if (document.get("digest").as_string() != digest) {
    return plan_changed("It is not the document that the header names.");
  }
  return document;
}

Result<GatePlan> read_plan(int attempt_dirfd, const json::Value& header) {
  auto document = read_manifest(attempt_dirfd, "gate-plan.json", header.get("gatePlanDigest").as_string());
  if (document.has_error()) {
    return plan_changed(document.error().code + ": " + document.error().detail);
  }
  GatePlan plan;
  for (const json::Value& each : document.value().get("gates").items()) {
    plan.gates.push_back(gate_of(each));
  }
  plan.total_ms = document.value().get("totalTimeoutMs").as_int().value_or(default_gates_ms);
  plan.max_output = static_cast<std::size_t>(
      std::clamp<std::int64_t>(document.value().get("maxOutputBytes").as_int().value_or(0), 4096,
                               static_cast<std::int64_t>(max_gate_output)));
  plan.boundary = document.value().get("boundary");
  return plan;
}

// What came of one gate, so far without its place in a document.
struct Outcome {
  const char* status = "skipped";
  std::string reason;
  std::string summary;
  bool ran = false;
  std::int64_t started_ms = 0, completed_ms = 0, duration_ms = 0;
  bool layered = false;
  boundary::RunOutput output;
};

Outcome skipped(std::string reason) {
  Outcome out;
  out.summary = reason == "no-command"           ? "the gate has no command"
                : reason == "stopped"            ? "the operator stopped the gates"
                : reason == "time-budget"        ? "the time of all gates was used up"
                : reason == "run-not-successful" ? "the run was no success"
                                                 : "what the run left could not be read";
  out.reason = std::move(reason);
  return out;
}
Outcome not_started(const Error& error) {
  Outcome out;
  out.status = "failed";
  const bool changed = error.kind == ErrorClass::refused;
  out.reason = error.code == "gate-plan-changed" ? error.code
               : changed                         ? "gate-boundary-changed"
                                                 : "gate-not-started";
  out.summary = error.code + ": " + error.object + ": " + error.detail;
  return out;
}

void judge(Outcome& out, std::int64_t limit_ms) {
  using End = boundary::RunOutput::End;
  out.ran = true;
  out.status = "failed";
  switch (out.output.end) {
    case End::exited:
      out.status = out.output.value == 0 ? "passed" : "failed";
      out.reason = out.output.value == 0 ? "" : "exit-code";
      out.summary = "ended with code " + std::to_string(out.output.value) +
                    (out.output.value == 127   ? " (no such program)"
                     : out.output.value == 126 ? " (the program cannot be started)"
                                               : "");
      break;
    case End::signaled:
      out.reason = "signal";
      out.summary = "ended by signal " + std::to_string(out.output.value);
      break;
    case End::timed_out:
      out.reason = "timeout";
      out.summary = "ended after " + std::to_string(limit_ms) + " ms, its limit";
      break;
    case End::output_limit:
      out.reason = "output-limit";
      out.summary = "ended because it wrote too much";
      break;
    case End::stopped:
      out = skipped("stopped");
      break;
  }
}

class Runner {
 public:
  Runner(int attempt_dirfd, GatePlan plan, const GateCall& call)
      : attempt_dirfd_(attempt_dirfd), plan_(std::move(plan)), call_(call) {}

  Gates run();

 private:
  Outcome run_one(const PlannedGate& gate, std::int64_t limit_ms);
  Result<boundary::RunOutput> in_boundary(const PlannedGate& gate, const boundary::RunLimits& limits);
  Result<boundary::RunDirectories> directories(const boundary::Compiled& compiled);
  Outcome one(const PlannedGate& gate);
  void write_down(const PlannedGate& gate, std::size_t number, Outcome& outcome);
  json::Value keep_output(std::size_t number, const Outcome& outcome) const;
  Status record(const char* kind, const PlannedGate& gate, const std::string& summary,
                const json::Value& fields) const {
    return call_.record(kind, std::string(kind) + ":" + std::to_string(call_.round) + ":" + gate.id, summary,
                        fields);
  }

  int attempt_dirfd_;
  GatePlan plan_;
  const GateCall& call_;
  std::optional<boundary::Machine> machine_;
  bool layered_ = true;
  std::int64_t deadline_ns_ = 0;
  Gates out_;
};

// Home and temporary directory of a gate without mounts of its own; the git directory kept for gates.
Result<boundary::RunDirectories> Runner::directories(const boundary::Compiled& compiled) {
  boundary::RunDirectories run;
  HR_TRY(base, attempt_path(attempt_dirfd_));
  if (compiled.has_git) {
    HR_TRY(git, boundary::resolve_root(base + "/" + workspace::gate_git_name));
    run.git = std::move(git);
  }
  if (compiled.backend == boundary::Backend::native) {
    return run;
  }
  if (::mkdirat(attempt_dirfd_, scratch_name, 0711) != 0) {
    return errno_error("make directory", scratch_name, errno);
  }
  HR_TRY(scratch, open_at(attempt_dirfd_, scratch_name, O_RDONLY | O_DIRECTORY));
  for (auto [name, root] : {std::pair{"home", &run.home}, std::pair{"temp", &run.temp}}) {
    if (::mkdirat(scratch.get(), name, 0700) != 0 ||
        (compiled.uid != ::geteuid() &&
         ::fchownat(scratch.get(), name, compiled.uid, compiled.gid, AT_SYMLINK_NOFOLLOW) != 0)) {
      return errno_error("make directory", name, errno);
    }
    HR_TRY(made, boundary::resolve_root(base + "/" + scratch_name + "/" + name));
    *root = std::move(made);
  }
  return run;
}

Result<boundary::RunOutput> Runner::in_boundary(const PlannedGate& gate, const boundary::RunLimits& limits) {
  HR_TRY(compiled, boundary::verification_boundary(plan_.boundary, *machine_, {layered_, 0}));
  layered_ = compiled.verification.layered;
  HR_TRY(run, directories(compiled));
  HR_TRY(env, boundary::resolve_trusted("/usr/bin/env"));
  boundary::Command command;
  HR_TRY(executable, boundary::resolve_executable(env.path));
  command.executable = std::move(executable);
  command.argv = {"env", "--"};
  command.argv.insert(command.argv.end(), gate.argv.begin(), gate.argv.end());
  command.env = boundary::inside(compiled, run).environment;
  command.cwd = compiled.worktree;
  command.end_with_leader = true;
  HR_CHECK(boundary::make_verification_limits(compiled, attempt_dirfd_));
  HR_TRY(plan, boundary::flat_plan(compiled, run, command));
  return boundary::run_plan(plan, limits);
}

Outcome Runner::run_one(const PlannedGate& gate, std::int64_t limit_ms) {
  boundary::RunLimits limits;
  limits.max_stdout = plan_.max_output;
  limits.wall_ms = limit_ms;
  limits.merge = true;
  limits.stop = gates_stopped;
  Outcome out;
  for (;;) {
    (void)pathfs::remove_tree_beneath(attempt_dirfd_, scratch_name);
    out.started_ms = unix_millis_now();
    const std::int64_t begun = monotonic_nanos();
    auto output = in_boundary(gate, limits);
    out.duration_ms = (monotonic_nanos() - begun) / ms_ns;
    out.completed_ms = unix_millis_now();
    const Status removed = boundary::remove_verification_limits(attempt_dirfd_);
    (void)removed;  // what is left is recorded, and removed with the run's own
    (void)pathfs::remove_tree_beneath(attempt_dirfd_, scratch_name);
    if (output.has_error() && output.error().code == "layer-failed" && layered_) {
      layered_ = false;  // nothing foreign has run yet
      continue;
    }
    if (output.has_error()) {
      return not_started(output.error());
    }
    out.output = std::move(output).value();
    out.layered = layered_;
    judge(out, limit_ms);
    return out;
  }
}

Outcome Runner::one(const PlannedGate& gate) {
  if (!call_.skip.empty()) {
    return skipped(call_.skip);
  }
  if (gate.argv.empty()) {
    return skipped("no-command");
  }
  if (!manifest::names_program(gate.argv)) {  // env would print its environment, and that is no check
    return not_started(Error{ErrorClass::failed, "gate-command-invalid", "run a gate", gate.id,
                             "Its command names no program.", ""});
  }
  if (gates_stopped()) {
    return skipped("stopped");
  }
  const std::int64_t left_ms = (deadline_ns_ - monotonic_nanos()) / ms_ns;
  if (left_ms <= 0) {
    return skipped("time-budget");
  }
  json::Value argv = json::Value::array();
  for (const std::string& word : gate.argv) {
    argv.push(word);
  }
  const Status told = record("verification.started", gate, "gate " + gate.id,
                             json::Value::object({{"gateId", gate.id}, {"command", argv}}));
  return told.has_error() ? not_started(told.error()) : run_one(gate, std::min(gate.timeout_ms, left_ms));
}

// The bytes that are kept, and their digest. A full disk costs the file, not the result.
json::Value Runner::keep_output(std::size_t number, const Outcome& outcome) const {
  std::string text = outcome.output.out;
  if (outcome.output.out_truncated) {
    text.resize(text.size() - std::min(text.size(), std::min(cut_guard, plan_.max_output / 4)));
  }
  std::string clean;
  if (call_.redactor != nullptr && call_.redactor->redact(text, clean)) {
    text = std::move(clean);
  }
  json::Value value = json::Value::object();
  value.set("sha256", sha256_prefixed(text));
  value.set("bytes", static_cast<std::uint64_t>(text.size()));
  value.set("truncated", outcome.output.out_truncated);
  const std::string name = std::to_string(number) + ".out";
  (void)::mkdirat(attempt_dirfd_, gate_outputs, 0700);
  auto folder = open_at(attempt_dirfd_, gate_outputs, O_RDONLY | O_DIRECTORY);
  if (folder.has_value() && write_file_atomic(folder.value().get(), name, text).has_value()) {
    value.set("reference", std::string(gate_outputs) + "/" + name);
  }
  std::size_t from = text.size() - std::min(text.size(), tail_bytes);
  while (from < text.size() && from > 0 && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) {
    ++from;
  }
  value.set("tail", attempt::document_text(std::string_view(text).substr(from), 4 * tail_bytes));
  return value;
}

void Runner::write_down(const PlannedGate& gate, std::size_t number, Outcome& outcome) {
  json::Value result = json::Value::object();
  result.set("gateId", gate.id);
  result.set("status", outcome.status);
  result.set("summary", attempt::document_text(outcome.summary, 500));
  const std::string evidence_id = "verification-" + gate.id;
  json::Value ids = json::Value::array();
  if (outcome.ran) {
    ids.push(evidence_id);
  }
  result.set("evidenceIds", std::move(ids));
  if (!outcome.reason.empty()) {
    result.set("reason", outcome.reason);
  }
  result.set("required", gate.required);
  result.set("evidenceRequired", gate.evidence_required);
  if (outcome.ran) {
    const auto& ran = outcome.output;
    result.set("startedAt", iso8601(outcome.started_ms));
    result.set("completedAt", iso8601(outcome.completed_ms));
    result.set("durationMs", outcome.duration_ms);
    if (ran.end == boundary::RunOutput::End::exited || ran.end == boundary::RunOutput::End::signaled) {
      result.set(ran.end == boundary::RunOutput::End::exited ? "exitCode" : "signal", ran.value);
    }
    result.set("worktree", outcome.layered ? "throw-away" : "read-only");
    result.set("output", keep_output(number, outcome));
    json::Value item = json::Value::object();
    item.set("id", evidence_id);
    item.set("kind", "verification");
    item.set("source", "harness");
    item.set("summary", "gate " + gate.id + " " + outcome.status + ": " + outcome.summary);
    item.set("reference", result.get("output").get("reference"));
    json::Value requirements = json::Value::array();
    if (std::string_view(outcome.status) == "passed") {
      requirements.push("verification");
    }
    item.set("requirementIds", std::move(requirements));
    item.set("verified", true);
    item.set("sha256", result.get("output").get("sha256"));
    item.set("startedAt", result.get("startedAt"));
    out_.evidence.push(std::move(item));
  }
  if (call_.skip.empty()) {
    json::Value fields = result;
    fields.erase("summary");                                                     // the event's own
    const bool told = !outcome.reason.empty() && outcome.reason != "exit-code";  // the code is shown anyway
    (void)record(
        "verification.completed", gate,
        "gate " + gate.id + " " + outcome.status + (told ? ": " + result.get("summary").as_string() : ""),
        fields);
  }
  out_.verification.push(std::move(result));
}

Gates Runner::run() {
  if (call_.skip.empty()) {
    machine_ = boundary::probe_machine();
    layered_ = machine_->overlay;
  }
  deadline_ns_ = monotonic_nanos() + plan_.total_ms * ms_ns;
  for (std::size_t i = 0; i < plan_.gates.size(); ++i) {
    Outcome outcome = one(plan_.gates[i]);
    write_down(plan_.gates[i], i + 1, outcome);
  }
  return std::move(out_);
}

// Nothing of a plan that is not the launch's is believed, its list of gates neither: that is the envelope's.
Gates refuse_all(int attempt_dirfd, const json::Value& header, const Error& error) {
  Gates out;
  auto envelope =
      read_manifest(attempt_dirfd, "task-envelope.json", header.get("taskEnvelopeDigest").as_string());
  std::vector<PlannedGate> gates;
  if (envelope.has_value()) {
    for (const json::Value& each : envelope.value().get("verificationGates").items()) {
      gates.push_back(gate_of(each));
    }
  }
  if (gates.empty()) {
    gates.push_back({"gate-plan", true, true, {}, 0});
  }
  const Outcome outcome = not_started(error);
  for (const PlannedGate& gate : gates) {
    out.verification.push(json::Value::object({{"gateId", gate.id},
                                               {"status", "failed"},
                                               {"summary", attempt::document_text(outcome.summary, 500)},
                                               {"evidenceIds", json::Value::array()},
                                               {"reason", outcome.reason},
                                               {"required", gate.required},
                                               {"evidenceRequired", gate.evidence_required}}));
  }
  return out;
}

}  // namespace

void stop_gates() {
  stopped = 1;
}
bool gates_stopped() {
  return stopped != 0;
}

Gates run_gates(int attempt_dirfd, const json::Value& header, const GateCall& call) {
  if (header.find("gatePlanDigest") == nullptr) {
    return {};
  }
  auto plan = read_plan(attempt_dirfd, header);
  if (plan.has_error()) {
    return refuse_all(attempt_dirfd, header, plan.error());
  }
  return Runner(attempt_dirfd, std::move(plan).value(), call).run();
}

}  // namespace hitchrail::finish
