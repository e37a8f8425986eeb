#include "runner/state.hpp"

#include <array>
#include <cstring>

#include "runner/crc32c.hpp"

namespace hitchrail::runner {

namespace {

constexpr std::uint32_t magic = 0x53535248;  // "HRSS"
constexpr std::uint32_t version = 1;

Error damaged(std::string detail) {
  return {ErrorClass::internal, "slot-damaged", "read state area", "slot", std::move(detail), ""};
}

void put_u64(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void put_text(std::string& out, std::string_view text) {
  put_u64(out, text.size());
  out.append(text);
}

struct Reader {
  std::string_view in;
  bool good = true;

  std::uint64_t u64() {
    std::uint64_t value = 0;
    if (in.size() < sizeof(value)) {
      good = false;
      return 0;
    }
    std::memcpy(&value, in.data(), sizeof(value));
    in.remove_prefix(sizeof(value));
    return value;
  }
  std::string text() {
    const std::uint64_t size = u64();
    if (!good || size > in.size()) {
      good = false;
      return {};
    }
    std::string value(in.substr(0, static_cast<std::size_t>(size)));
    in.remove_prefix(static_cast<std::size_t>(size));
    return value;
  }
};

std::uint32_t checksum(const wire::Slot& slot, std::string_view outbox, std::string_view snapshot) {
  wire::Slot copy = slot;
  copy.crc = 0;
  std::uint32_t crc = crc32c({reinterpret_cast<const char*>(&copy), sizeof(copy)});
  crc = crc32c(outbox, crc);
  return crc32c(snapshot, crc);
}

}  // namespace

std::string encode_state(const SessionState& state) {
  std::string body;
  put_text(body, state.conversation_id);
  put_text(body, state.turn_id);
  put_u64(body, state.last_call_id);
  put_u64(body, state.open_approvals.size());
  for (const auto& id : state.open_approvals) {
    put_text(body, id);
  }
  for (const std::uint64_t start : state.discard_start) {
    put_u64(body, start);
  }
  put_u64(body, state.verdict ? 1 : 0);
  if (state.verdict) {
    const Verdict& verdict = *state.verdict;
    put_u64(body, verdict.status);
    put_u64(body, verdict.summary_cut ? 1 : 0);
    for (const auto* member : {&verdict.code, &verdict.summary, &verdict.error, &verdict.continuation_kind,
                               &verdict.continuation_reference, &verdict.details_json}) {
      put_text(body, *member);
    }
  }
  std::string out;
  put_u64(out, std::uint64_t{version} << 32 | magic);
  put_text(out, body);
  return out;
}

Result<SessionState> decode_state(std::string_view& snapshot) {
  Reader outer{snapshot};
  const bool known = outer.u64() == (std::uint64_t{version} << 32 | magic);
  const std::uint64_t size = outer.u64();
  if (!outer.good || !known || size > outer.in.size()) {
    return damaged("no session state before the snapshot");
  }
  Reader reader{outer.in.substr(0, static_cast<std::size_t>(size))};
  SessionState state;
  state.conversation_id = reader.text();
  state.turn_id = reader.text();
  state.last_call_id = reader.u64();
  const std::uint64_t approvals = reader.u64();
  for (std::uint64_t i = 0; reader.good && i < approvals; ++i) {
    state.open_approvals.push_back(reader.text());
  }
  for (auto& start : state.discard_start) {
    start = reader.u64();
  }
  if (reader.u64() != 0) {
    Verdict verdict;
    verdict.status = static_cast<std::uint32_t>(reader.u64());
    verdict.summary_cut = reader.u64() != 0;
    for (auto* member : {&verdict.code, &verdict.summary, &verdict.error, &verdict.continuation_kind,
                         &verdict.continuation_reference, &verdict.details_json}) {
      *member = reader.text();
    }
    state.verdict = std::move(verdict);
  }
  if (!reader.good || !reader.in.empty()) {
    return damaged("session state is not whole");
  }
  snapshot = outer.in.substr(static_cast<std::size_t>(size));
  return state;
}

Result<SlotImage> read_published(const wire::SharedState& area) {
  const std::uint64_t generation = area.published.load(std::memory_order_acquire);
  const auto* base = reinterpret_cast<const char*>(&area) + area.slot_offset[generation & 1];
  SlotImage image;
  std::memcpy(&image.slot, base, sizeof(image.slot));
  if (generation == 0 || image.slot.generation != generation) {
    return damaged("generation " + std::to_string(generation) + " is not in its slot");
  }
  if (image.slot.outbox_size > wire::max_outbox || image.slot.snapshot_size > wire::max_snapshot) {
    return damaged("sizes out of bounds");
  }
  image.outbox = {base + wire::slot_outbox, image.slot.outbox_size};
  image.snapshot = {base + wire::slot_snapshot, image.slot.snapshot_size};
  if (checksum(image.slot, image.outbox, image.snapshot) != image.slot.crc) {
    return damaged("checksum of generation " + std::to_string(generation));
  }
  return image;
}

void publish(wire::SharedState& area, SlotImage& image) {
  auto* base = reinterpret_cast<char*>(&area) + area.slot_offset[image.slot.generation & 1];
  image.slot.outbox_size = static_cast<std::uint32_t>(image.outbox.size());
  image.slot.snapshot_size = static_cast<std::uint32_t>(image.snapshot.size());
  image.slot.crc = checksum(image.slot, image.outbox, image.snapshot);
  std::memcpy(base, &image.slot, sizeof(image.slot));
  std::memcpy(base + wire::slot_outbox, image.outbox.data(), image.outbox.size());
  std::memcpy(base + wire::slot_snapshot, image.snapshot.data(), image.snapshot.size());
  area.published.store(image.slot.generation, std::memory_order_release);
}

}  // namespace hitchrail::runner
