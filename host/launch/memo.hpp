#pragma once
// What the road may remember between runs: content hashes of executables, keyed by their whole file identity,
// and probe results, keyed by everything a probe depends on. Lies in the state home's `memo/`, one small file
// a key; losing it costs time, never correctness. Writes happen only through remember(), which a preview
// never calls.

#include <optional>
#include <string>

#include "core/json.hpp"
#include "core/result.hpp"
#include "store/state_home.hpp"

namespace hitchrail::launch {

// `key` is hashed; nullopt when unknown, unreadable, not ours or damaged.
std::optional<json::Value> recall(const store::StateHome& home, const std::string& kind,
                                  const std::string& key);
Status remember(const store::StateHome& home, const std::string& kind, const std::string& key,
                json::Value value);

}  // namespace hitchrail::launch
