#pragma once
// What a successor needs, beside the journal: the runner's own session state, which stands before the adapter's bytes in a
// slot's snapshot, and the two-slot area itself (host/shim/wire.hpp).
//
// Promises: encode and decode are inverse; a slot whose checksum or sizes are wrong is refused (slot-damaged), never half used.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::runner {

struct Verdict {
  std::uint32_t status = 0;  // HR_VERDICT_*
  std::string code, summary, error, continuation_kind, continuation_reference, details_json;
  bool summary_cut = false;
};

inline constexpr std::size_t max_verdict_summary = 64u << 10;  // longer ones are cut and say so
inline constexpr std::size_t max_verdict_member = 16u << 10;   // of error and details
inline constexpr std::size_t max_id = 160;                     // of any id; longer ones become sha256_<hex>
inline constexpr std::size_t max_open_approvals = 64;

// Sticky values that the adapter set through callbacks and does not keep itself.
struct SessionState {
  std::string conversation_id, turn_id;
  std::uint64_t last_call_id = 0;
  std::vector<std::string> open_approvals;
  std::optional<Verdict> verdict;
  std::array<std::uint64_t, wire::max_streams> discard_start{};  // by ring index
};

std::string encode_state(const SessionState& state);
// Takes the state off the front of a snapshot; the rest is the adapter's.
Result<SessionState> decode_state(std::string_view& snapshot);

// A slot as values.
struct SlotImage {
  wire::Slot slot{};
  std::string_view outbox;
  std::string_view snapshot;
};

// Views into the area; valid until that slot is written again.
Result<SlotImage> read_published(const wire::SharedState& area);
// Writes image into the unused half (crc and sizes are filled in) and publishes it by one release store.
void publish(wire::SharedState& area, SlotImage& image);

}  // namespace hitchrail::runner
