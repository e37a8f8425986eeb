#pragma once
// Finds, verifies, seals, enables and pins adapter libraries. Links as hitchrail_plugins (core). Runs no code
// of any plugin.
//
// Promises: a library counts only when every component of its path is a real directory or file owned by root
// or the user and writable by nobody else; its bytes are copied into a sealed memfd and judged, hashed and
// later loaded from there, so nothing written afterwards matters; only a library whose digest is pinned (by
// `enable`, or by the digest list of the build for the plugins installed with it) is opened for a run. A
// broken library is listed with the reason, never skipped. Refuses: plugin-path-unsafe, plugin-not-found,
// plugin-ambiguous, plugin-disabled, plugin-changed, plugin-too-large (64 MiB), and everything of elf.hpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "plugins/elf.hpp"

namespace hitchrail::plugins {

// Where pins are kept: the host's database (store_pins.hpp), or a test's memory. One pin per provider id.
struct Pin {
  std::string provider;  // provider id
  std::string path;      // where it was enabled from
  std::string digest;    // "sha256:…" of the library
  bool enabled = true;   // false: switched off by `disable`
};
class PinStore {
 public:
  virtual ~PinStore() = default;
  virtual Result<std::vector<Pin>> pins() = 0;
  virtual Status put_pin(const Pin& pin) = 0;  // replaces the pin of that provider
};

// Folders with *.so files. A folder that holds a `plugins.digests` list (the build makes it; "sha256:…
// name.so" a line) has those libraries enabled by default; the list is held to the same path rule as the
// libraries.
struct PluginDirs {
  std::vector<std::string> system;  // trusted to carry a digest list
  std::vector<std::string> user;    // never enabled by default
};
enum class PluginState {
  enabled,   // pinned, and the bytes are those pinned
  disabled,  // never enabled, or switched off
  changed,   // pinned with another digest: enable it again after looking
  broken,    // see error
};
std::string_view state_name(PluginState state);

struct PluginInfo {
  std::string path;
  std::string provider;  // of the note; the file's stem for a broken library
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::string sdk_version;
  std::string digest;  // empty when the bytes could not be read
  PluginState state = PluginState::broken;
  bool by_default = false;  // enabled by the build's digest list, not by a pin
  Error error;              // broken: why; changed: both digests
};

// Every library of the folders, sorted by provider. Only an unreadable pin store is an error of the whole.
Result<std::vector<PluginInfo>> list_plugins(const PluginDirs& dirs, PinStore& pins);

struct SealedPlugin {
  Fd fd;  // memfd, sealed against every change
  std::string path;
  std::string digest;
  ElfReport elf;
};
// An enabled plugin, sealed and judged. For the road: hand `fd` to the planner and the shim.
Result<SealedPlugin> open_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view provider);
// Any library by its path, enabled or not. For `plugins check` and `enable`.
Result<SealedPlugin> seal_plugin_file(const std::string& path);

// `what` is a provider id of list_plugins, or the path of a library below one of the folders. Pins the digest
// seen now.
Result<PluginInfo> enable_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view what);
Result<PluginInfo> disable_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view what);

}  // namespace hitchrail::plugins
