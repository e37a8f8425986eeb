// The actions an operator may ask of a run, derived from its attempt's own runtime manifest (contracts §4.5).

#include <array>

#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

struct Action {
  std::string_view action, label, capability;
};
// `message` speaks to a running turn and is run.steer; a further turn is follow-up.
constexpr std::array<Action, 20> kActions = {{{"start", "Start", "run.start"},
                                              {"status", "Status", "run.status"},
                                              {"logs", "Logs", "run.logs"},
                                              {"complete", "Completion", "run.complete"},
                                              {"stop", "Stop", "run.stop"},
                                              {"interrupt", "Interrupt the turn", "run.interrupt"},
                                              {"message", "Message to the running turn", "run.steer"},
                                              {"follow-up", "Follow-up turn", "run.follow-up"},
                                              {"resume", "Resume the conversation", "run.resume"},
                                              {"fork", "Fork the conversation", "run.fork"},
                                              {"compact", "Compact the conversation", "run.compact"},
                                              {"archive", "Archive the conversation", "run.archive"},
                                              {"close", "Close the conversation", "run.close"},
                                              {"reattach", "Reattach", "run.reattach"},
                                              {"approvals", "Approvals", "run.approvals"},
                                              {"tool-calls", "Tool calls", "tool.calls"},
                                              {"mcp", "MCP tools", "tool.mcp"},
                                              {"structured-output", "Structured output", "output.structured"},
                                              {"token-usage", "Token usage", "usage.tokens"},
                                              {"artifacts", "Artifacts", "artifact.write"}}};

}  // namespace

json::Value derive_controls(const json::Value& runtime_manifest) {
  const bool valid = runtime_manifest.is_object() && !check_runtime_manifest(runtime_manifest).has_error();
  json::Value out = json::Value::object();
  if (valid) {
    out.set("manifestDigest", runtime_manifest.get("digest"));
    out.set("provider", runtime_manifest.get("provider"));
    out.set("providerVersion", runtime_manifest.get("providerVersion"));
    out.set("probeState", runtime_manifest.get("probe").get("state"));
  }
  std::vector<std::string> ids;
  for (const Action& action : kActions) {
    ids.emplace_back(action.capability);
  }
  const std::vector<Requirement> found =
      evaluate_requirements(valid ? runtime_manifest : json::Value(), std::move(ids), false);
  json::Value controls = json::Value::array();
  for (const Action& action : kActions) {
    for (const Requirement& requirement : found) {
      if (requirement.id != action.capability) {
        continue;
      }
      json::Value control = json::Value::object();
      control.set("action", action.action);
      control.set("label", action.label);
      control.set("capabilityId", action.capability);
      control.set("state", to_string(requirement.state));
      control.set("available", requirement.satisfied);
      control.set("advisory", requirement.advisory);
      control.set("reason", valid ? requirement.reason : std::string("there is no valid runtime manifest"));
      if (!requirement.satisfied) {
        control.set("remediation", requirement.remedy);
      }
      controls.push(std::move(control));
    }
  }
  out.set("controls", std::move(controls));
  return out;
}

}  // namespace hitchrail::manifest
