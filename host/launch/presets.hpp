#pragma once
// Sandbox presets of an installation: the built-ins of its profiles, and the operator's own. An operator's
// preset is used only as it was recorded: `sandbox presets add` validates it, keeps it in the configuration
// directory and writes down who did it; a file that has changed since is refused until it is added again.
//
// Promises: a built-in's id means the built-in, always; who added, changed, enabled or disabled a preset, and
// which run used an advisory or an operator's one, is in the store for good. Refuses: preset-not-found,
// preset-builtin, preset-unrecorded, preset-changed, preset-disabled, preset-unsafe, preset-name (another id
// than its file's name).

#include <optional>
#include <string>
#include <vector>

#include "boundary/preset.hpp"
#include "launch/installation.hpp"
#include "store/state_home.hpp"
#include "store/store.hpp"

namespace hitchrail::launch {

enum class PresetState { built_in, recorded, unrecorded, changed, disabled, broken };
const char* state_name(PresetState state);

struct PresetInfo {
  std::string id;
  std::string path;
  PresetState state = PresetState::built_in;
  std::optional<boundary::Preset> preset;     // absent when broken
  std::optional<store::PresetRecord> record;  // the store's, when there is one
  std::optional<Error> error;                 // why it is not used
};
// Built-ins first, then the operator's, each by id. `home` may be null: no state yet.
Result<std::vector<PresetInfo>> list_presets(const Installation& installation, const store::StateHome* home);
// By id, or by the path of a file that was added. The error says why it may not be used.
Result<PresetInfo> find_preset(const Installation& installation, const store::StateHome* home,
                               const std::string& name);
// With its history; a preset that may not be used is no error here.
struct PresetHistory {
  PresetInfo info;
  std::vector<store::PresetDecision> decisions;
};
Result<PresetHistory> show_preset(const Installation& installation, const store::StateHome* home,
                                  const std::string& name);

// These make the state home only when everything else is in order.
Result<PresetInfo> add_preset(const Installation& installation, const std::string& path);
Result<PresetInfo> enable_preset(const Installation& installation, const std::string& id, bool enabled);
// Writes down that a run used it, when it is advisory or the operator's own. `run`: attempt id, or "exec".
Status record_selection(store::Store& store, const PresetInfo& info, const std::string& run);

struct Person {
  std::uint32_t uid = 0;
  std::string user;  // by /etc/passwd alone, "" when it is not there
};
Person current_person();

}  // namespace hitchrail::launch
