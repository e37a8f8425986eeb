#pragma once
// Plugin pins in the host's database, and the plugin folders of an installation. Reading with no database yet
// gives no pins and makes none; a pin is written only through a state home opened for writing.

#include <memory>

#include "launch/installation.hpp"
#include "plugins/plugins.hpp"
#include "store/state_home.hpp"

namespace hitchrail::launch {

plugins::PluginDirs plugin_dirs(const Installation& installation);
// `home` may be null (no state yet) and must outlive the store.
std::unique_ptr<plugins::PinStore> database_pins(const store::StateHome* home);

}  // namespace hitchrail::launch
