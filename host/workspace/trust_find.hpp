#pragma once
// Finding what stands at the places of trust_table.hpp: names only, nothing is opened but directories.
// Internal to the trust scan.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "workspace/trust_scan.hpp"

namespace hitchrail::workspace {

struct FoundPlace {
  const TrustPlace* place = nullptr;  // null: a bound or an obstacle of the walk itself
  std::string problem;                // as TrustEntry
  std::string detail;                 // goes into the fingerprint of an entry without content
};
struct FoundPlaces {
  std::map<std::string, FoundPlace> paths;  // by path below the root; "" for the walk as a whole
  std::size_t walked = 0;
};
// `places` in order: the first that leads to a path names it. `subdirectory`: the working directory.
Result<FoundPlaces> find_places(int root, const std::string& subdirectory,
                                const std::vector<TrustPlace>& places, const TrustLimits& limits);

// What is there, when it was changed, and how large: for entries whose content is not looked at.
std::string state_text(int root, const std::string& path);

}  // namespace hitchrail::workspace
