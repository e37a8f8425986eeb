#pragma once
// The table of what `plugins check` tries with running code: ids, sentences and order, known to both sides of
// the check. One row is one finding; docs/authors/checker.md prints it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hitchrail::plugins {

enum class Hook : std::uint32_t {
  none,
  load,
  probe,
  on_probe_step,
  probe_close,
  render,
  launch,
  reattach,
  map_events,
  on_exit,
  on_end,
  snapshot,
  close,
  control,
  on_decision,
  on_call_result,
  on_timer,
  on_transport,
};
const char* hook_name(Hook hook);
constexpr std::uint32_t hook_bit(Hook hook) {
  return 1u << static_cast<std::uint32_t>(hook);
}

// Hooks of a session and its states, in the order of the pairs.
inline constexpr std::array<Hook, 10> pair_hooks = {
    Hook::snapshot, Hook::map_events,   Hook::control, Hook::on_decision, Hook::on_call_result,
    Hook::on_timer, Hook::on_transport, Hook::on_exit, Hook::on_end,      Hook::close};
enum class SessionState : std::uint32_t { planned, open, exited, ended };
inline constexpr std::size_t state_count = 4;
const char* state_name(SessionState state);
// The state table of adapter.h.
bool pair_allowed(SessionState state, Hook hook);

enum Step : std::size_t {
  step_load,
  step_table,
  step_probe_begin,
  step_probe_walk,
  step_probe_unasked,
  step_probe_close,
  step_render_text,
  step_render_pure,
  step_launch_plan,
  step_launch_same,
  step_launch_arguments,
  step_pairs,  // state_count * pair_hooks.size() steps
  step_snapshot_same = step_pairs + state_count * pair_hooks.size(),
  step_reattach_quiet,
  step_reattach_broken,
  step_records_any,
  step_records_same,
  step_end_verdict,
  step_count,
};

struct StepInfo {
  std::string id;
  std::string sentence;
};
const std::vector<StepInfo>& check_steps();  // step_count rows

}  // namespace hitchrail::plugins
