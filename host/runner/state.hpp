#pragma once
// The runner's own session state, which stands before the adapter's bytes in a slot's snapshot (generation 1
// has none: it is the shim's, and holds the planned session's bytes alone).
//
// Promises: encode and decode are inverse; a state that is not whole is refused (slot-damaged), never half
// used.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::runner {

inline constexpr std::size_t max_id = 160;  // of any id; longer ones become sha256_<hex>
inline constexpr std::size_t max_open_approvals = 64;

// Sticky values that the adapter set through callbacks and need not keep itself.
struct SessionState {
  std::string conversation_id, turn_id;
  std::uint64_t last_call_id = 0;
  bool input_closed = false;
  std::vector<std::string> open_approvals;
  std::array<std::uint64_t, wire::max_streams> discard_start{};  // by ring index
};

std::string encode_state(const SessionState& state);
// Takes the state off the front of a snapshot; the rest is the adapter's.
Result<SessionState> decode_state(std::string_view& snapshot);

}  // namespace hitchrail::runner
