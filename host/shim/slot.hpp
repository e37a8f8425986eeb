#pragma once
// The two-slot state area and the exit slot as both ends use them: CRC-32C, publishing, reading. Header only,
// needs nothing but wire.hpp, does no allocation and no system call.
//
// Promises: read_slot() answers true only for a slot whose generation, sizes and checksum fit, and then `out`
// is a copy the other side cannot change any more (outbox and snapshot stay where they are; their checksum
// was compared once). Refuses: to publish an outbox or snapshot over its bound.

#include <array>
#include <cstring>

#include "shim/wire.hpp"

namespace hitchrail::wire {

namespace detail {
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_crc_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) {
      c = (c & 1u) != 0 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    }
    t[0][i] = c;
  }
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::size_t k = 1; k < 8; ++k) {
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFFu];
    }
  }
  return t;
}
inline constexpr auto crc_tables = make_crc_tables();
}  // namespace detail

// CRC-32C (Castagnoli). `crc` continues an earlier call: crc32c(b, crc32c(a)) is the checksum of a then b.
inline std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t crc = 0) {
  const auto& t = detail::crc_tables;
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint32_t c = ~crc;
  while (size >= 8) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= c;
    c = t[7][low & 0xFFu] ^ t[6][(low >> 8) & 0xFFu] ^ t[5][(low >> 16) & 0xFFu] ^ t[4][low >> 24] ^
        t[3][high & 0xFFu] ^ t[2][(high >> 8) & 0xFFu] ^ t[1][(high >> 16) & 0xFFu] ^ t[0][high >> 24];
    p += 8;
    size -= 8;
  }
  while (size-- > 0) {
    c = (c >> 8) ^ t[0][(c ^ *p++) & 0xFFu];
  }
  return ~c;
}

// Bytes of the whole area: SharedState in the first page, then the two halves. Sparse: an unused half costs
// nothing.
inline constexpr std::size_t state_header = 4096;
inline constexpr std::size_t state_size = state_header + 2 * slot_span;
static_assert(sizeof(SharedState) <= state_header);

inline std::uint64_t slot_offset(std::uint64_t generation) {
  return state_header + (generation & 1u) * slot_span;
}

inline std::uint32_t slot_crc(Slot header, const void* outbox, const void* snapshot) {
  header.crc = 0;
  std::uint32_t crc = crc32c(&header, sizeof header);
  crc = crc32c(outbox, header.outbox_size, crc);
  return crc32c(snapshot, header.snapshot_size, crc);
}

// Copies the slot of `generation` out of the mapped area.
inline bool read_slot(const void* area, std::uint64_t generation, Slot& out) {
  const auto* base = static_cast<const unsigned char*>(area) + slot_offset(generation);
  std::memcpy(&out, base, sizeof out);
  return out.generation == generation && out.outbox_size <= max_outbox && out.snapshot_size <= max_snapshot &&
         out.signal_count <= max_signals &&
         slot_crc(out, base + slot_outbox, base + slot_snapshot) == out.crc;
}
inline const void* slot_outbox_bytes(const void* area, std::uint64_t generation) {
  return static_cast<const unsigned char*>(area) + slot_offset(generation) + slot_outbox;
}
inline const void* slot_snapshot_bytes(const void* area, std::uint64_t generation) {
  return static_cast<const unsigned char*>(area) + slot_offset(generation) + slot_snapshot;
}

// Writes `header` (its generation, sizes and crc are filled in here) with outbox and snapshot into the unused
// half and publishes it. The caller has waited until SharedState::applied >= published - 1: the half written
// here was that of published - 1, and the shim must have taken its outbox.
inline bool publish_slot(void* area, Slot header, const void* outbox, std::size_t outbox_size,
                         const void* snapshot, std::size_t snapshot_size) {
  if (outbox_size > max_outbox || snapshot_size > max_snapshot) {
    return false;
  }
  auto* state = static_cast<SharedState*>(area);
  header.generation = state->published.load(std::memory_order_relaxed) + 1;
  header.outbox_size = static_cast<std::uint32_t>(outbox_size);
  header.snapshot_size = static_cast<std::uint32_t>(snapshot_size);
  header.crc = slot_crc(header, outbox, snapshot);
  auto* base = static_cast<unsigned char*>(area) + slot_offset(header.generation);
  if (outbox_size > 0) {
    std::memcpy(base + slot_outbox, outbox, outbox_size);
  }
  if (snapshot_size > 0) {
    std::memcpy(base + slot_snapshot, snapshot, snapshot_size);
  }
  std::memcpy(base, &header, sizeof header);
  state->published.store(header.generation, std::memory_order_release);
  return true;
}

inline void seal_exit_slot(ExitSlot& slot) {
  slot.magic = exit_magic;
  slot.version = exit_version;
  slot.crc = crc32c(&slot, offsetof(ExitSlot, crc));
}
inline bool exit_slot_valid(const ExitSlot& slot) {
  return slot.magic == exit_magic && slot.version == exit_version &&
         slot.crc == crc32c(&slot, offsetof(ExitSlot, crc));
}

}  // namespace hitchrail::wire
