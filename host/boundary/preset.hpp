#pragma once
// A sandbox preset (profiles/sandbox/*.yaml, schema sandbox-preset/v1): what a run may read, write and reach,
// and what must be proven for it. Strict: unknown and duplicate keys, wrong types and unknown capabilities
// are refused with file, line and column.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::boundary {

enum class Enforcement { required, advisory };

struct Preset {
  std::string id;
  std::string name;
  std::string description;
  Enforcement enforcement = Enforcement::required;
  std::vector<std::string> required_capabilities;  // of capability_names()
  std::vector<std::string> read_paths;             // `<workspace>`, `<workspace>/x`, `~/x`, absolute
  std::vector<std::string> write_paths;
  std::vector<std::string> denied_paths;
  // Package stores that hard-link: folders (also inside the worktree) that are granted read-only.
  std::vector<std::string> stores;
  bool dotfile_masking = false;  // every dotfile below the granted paths is covered
  bool network_allowed = true;           // network: host | none
  std::vector<std::string> environment;  // names a run may take over from the operator's environment
  std::uint64_t max_processes = 0;       // 0 = no limit of its own
  std::string digest;                    // of the canonical form
};

// Every capability a backend can prove, e.g. "filesystem.read-outside", sorted.
const std::vector<std::string>& capability_names();

// A path to a YAML file (contains '/' or ends in .yaml) or the name of a preset in the installed profiles.
Result<Preset> load_preset(const std::string& path_or_name);
Result<Preset> parse_preset(std::string_view text, const std::string& file_name);

}  // namespace hitchrail::boundary
