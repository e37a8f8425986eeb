#include "launch/gate_plans.hpp"

#include "boundary/verification.hpp"
#include "core/canonical.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::uint64_t max_output_bytes = 8u << 20;  // of one gate

// The whole way to the flat plan, but for what does not exist yet.
Status try_boundary(const json::Value& policy, const boundary::Machine& machine,
                    const boundary::RunDirectories& planned) {
  HR_TRY(compiled, boundary::verification_design(policy, machine, {machine.overlay, 0}));
  HR_TRY(env, boundary::resolve_trusted("/usr/bin/env"));
  boundary::Command command;
  HR_TRY(executable, boundary::resolve_executable(env.path));
  command.executable = std::move(executable);
  command.argv = {"env", "--", "true"};
  command.env = boundary::inside(compiled, planned).environment;
  command.end_with_leader = true;
  HR_TRY(plan, boundary::flat_plan(compiled, planned, command));
  (void)plan;
  return {};
}

}  // namespace

Result<GatePlan> plan_gates(const json::Value& envelope, const boundary::Compiled& compiled,
                            const boundary::Machine& machine, const boundary::RunDirectories& planned,
                            std::uint64_t total_ms) {
  GatePlan out;
  const auto& listed = envelope.get("verificationGates").items();
  if (listed.empty()) {
    return out;
  }
  json::Value gates = json::Value::array();
  bool any = false;
  bool required = false;
  for (const json::Value& gate : listed) {
    json::Value one = json::Value::object({{"id", gate.get("id")},
                                           {"required", gate.get("required")},
                                           {"evidenceRequired", gate.get("evidenceRequired")}});
    if (const json::Value* command = gate.find("command")) {
      one.set("command", *command);
      any = true;
      required = required || gate.get("required").as_bool(true);
    }
    gates.push(std::move(one));
  }
  const json::Value policy = boundary::verification_policy(compiled);
  if (any && compiled.blockers.empty()) {  // without a boundary for the run there is none for its gates
    const Status had = try_boundary(policy, machine, planned);
    if (had.has_error()) {
      Error error{
          ErrorClass::environment,
          "gate-boundary-unavailable",
          "plan the verification gates",
          "verificationGates",
          had.error().code + ": " + had.error().object + ": " + had.error().detail,
          had.error().remedy.empty() ? "Take the gates' commands out of the task." : had.error().remedy};
      if (required) {
        out.blockers.push_back(std::move(error));
      } else {
        out.warnings.push_back({error.code, error.detail});
      }
    } else if (compiled.backend == boundary::Backend::landlock || !machine.overlay) {
      out.warnings.push_back({"gates-read-only",
                              "The verification gates see the worktree read-only: no layer that is thrown "
                              "away can be had here."});
    }
  }
  out.total_ms = total_ms;
  out.document = json::Value::object({{"schemaVersion", "gate-plan/v1"},
                                      {"totalTimeoutMs", total_ms},
                                      {"maxOutputBytes", max_output_bytes},
                                      {"gates", std::move(gates)},
                                      {"boundary", policy}});
  HR_TRY(digest, seal_document(out.document));
  (void)digest;
  return out;
}

Result<GateStage> stage_gates(const Ground& ground, const Request& request, const TaskStage& task,
                              BoundaryStage& boundary) {
  HR_TRY(plan, plan_gates(task.envelope, boundary.compiled, ground.machine(),
                          planned_directories(ground, task.attempt_id), request.task.gates_timeout_ms));
  for (Error& error : plan.blockers) {
    boundary.compiled.blockers.push_back({std::move(error)});
  }
  boundary.compiled.warnings.insert(boundary.compiled.warnings.end(), plan.warnings.begin(),
                                    plan.warnings.end());
  return GateStage{std::move(plan.document), plan.total_ms};
}

}  // namespace hitchrail::launch
