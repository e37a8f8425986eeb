#include "plugins/check_steps.hpp"

namespace hitchrail::plugins {
namespace {

std::vector<StepInfo> make_steps() {
  std::vector<StepInfo> out = {
      {"load", "the library loads and gives its table within the time limit"},
      {"table", "the table is complete and agrees with the note"},
      {"probe.begin", "probe makes an object and asks for a step or gives the result"},
      {"probe.walk", "a probe ends with one result of the schema, or fails and says why"},
      {"probe.unasked", "a step result nobody asked for is answered HR_E_STATE"},
      {"probe.close", "a probe can be closed before its steps are answered"},
      {"render.text", "render gives one text for a task envelope"},
      {"render.pure", "render gives the same text again"},
      {"launch.plan", "launch makes a session and gives one plan within the bounds"},
      {"launch.same", "launch gives the same plan for the same request, time and randomness"},
      {"launch.arguments", "nothing of the task is in an argument or a variable"},
  };
  for (std::size_t s = 0; s < state_count; ++s) {
    const auto state = static_cast<SessionState>(s);
    for (const Hook hook : pair_hooks) {
      const std::string pair = std::string(hook_name(hook)) + " in state " + state_name(state);
      out.push_back({"pair." + std::string(state_name(state)) + "." + hook_name(hook),
                     pair_allowed(state, hook) ? pair + " is answered"
                                               : pair + " is answered HR_E_STATE without side effect"});
    }
  }
  out.push_back({"snapshot.same", "an unchanged session gives the same snapshot again, also after reattach"});
  out.push_back({"reattach.quiet", "reattach only rebuilds: it emits, sends and sets nothing"});
  out.push_back({"reattach.broken", "a snapshot of foreign bytes is refused or taken, without a crash"});
  out.push_back({"records.any", "records of any bytes, flags and streams are answered without a crash"});
  out.push_back({"records.same", "the same records after the same snapshot give the same callbacks"});
  out.push_back({"end.verdict", "on_end finishes once, with a status and, when failed, an error"});
  return out;
}

}  // namespace

const char* hook_name(Hook hook) {
  static constexpr std::array<const char*, 18> names = {
      "no hook", "load",     "probe",       "on_probe_step",  "probe_close", "render",
      "launch",  "reattach", "map_events",  "on_exit",        "on_end",      "snapshot",
      "close",   "control",  "on_decision", "on_call_result", "on_timer",    "on_transport"};
  const auto index = static_cast<std::size_t>(hook);
  return index < names.size() ? names[index] : "an unknown hook";
}

const char* state_name(SessionState state) {
  static constexpr std::array<const char*, state_count> names = {"planned", "open", "exited", "ended"};
  return names[static_cast<std::size_t>(state)];
}

bool pair_allowed(SessionState state, Hook hook) {
  switch (hook) {
    case Hook::snapshot:
    case Hook::close:
      return true;
    case Hook::map_events:
      return state == SessionState::open || state == SessionState::exited;
    case Hook::on_end:
      return state == SessionState::exited;
    default:
      return state == SessionState::open;
  }
}

const std::vector<StepInfo>& check_steps() {
  static const std::vector<StepInfo> steps = make_steps();
  return steps;
}

}  // namespace hitchrail::plugins
