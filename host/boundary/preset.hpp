#pragma once
// A sandbox preset (profiles/sandbox/*.yaml, schema sandbox-preset/v1): what a run may read, write and reach,
// and what must be proven for it. Strict: unknown and duplicate keys, wrong types and unknown capabilities
// are refused with file, line and column.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::boundary {

enum class Enforcement { required, advisory };
enum class Network { host, none, gate };  // gate: loopback only, and the run's hitchrail-gate as the way out
const char* network_name(Network network);
// What of the operator's credentials a run may get: none; variables of the profile's credential list; or
// these and the provider's login file.
enum class Credentials { none, environment, login };
const char* credentials_name(Credentials credentials);

struct Preset {
  std::string id;
  std::string name;
  std::string description;
  Enforcement enforcement = Enforcement::required;
  std::vector<std::string> required_capabilities;  // of capability_names()
  // `<workspace>`, `<workspace>/x`, `~`, `~/x`, absolute. The deepest entry that contains a path decides;
  // at equal depth deny, then write, then read.
  std::vector<std::string> read_paths;
  std::vector<std::string> write_paths;
  std::vector<std::string> denied_paths;
  std::vector<std::string> stores;  // package stores that hard-link into worktrees: granted read-only, links
                                    // into them are no way out
  bool dotfile_masking = false;     // entries of the worktree that begin with a dot are masked
  bool local_only_handles = false;  // no root on a network file system; no provider without a local process
  Network network = Network::host;
  std::vector<std::string> allowed_hosts;  // gate: names beside the profile's providerHosts, lower case
  std::vector<std::string> environment;    // names a run may take over from the operator's environment
  Credentials credentials = Credentials::login;
  std::uint64_t max_processes = 0;  // 0 = no limit of its own
  std::uint64_t max_memory = 0;     // bytes, 0 = none
  bool built_in = false;            // set by whoever loaded it
  json::Value document;             // what the file says; its digest is `digest`
  std::string digest;               // of the canonical form
};

// Every capability a backend can prove, e.g. "filesystem.read-outside", sorted.
const std::vector<std::string>& capability_names();

// A path to a YAML file (contains '/' or ends in .yaml) or the name of a preset in the installed profiles.
Result<Preset> load_preset(const std::string& path_or_name);
Result<Preset> parse_preset(std::string_view text, const std::string& file_name);

}  // namespace hitchrail::boundary
