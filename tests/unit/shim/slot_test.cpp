#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "shim/slot.hpp"

namespace wire = hitchrail::wire;

TEST_CASE("crc32c has the published check value and continues over pieces") {
  REQUIRE(wire::crc32c("123456789", 9) == 0xE3069283u);
  REQUIRE(wire::crc32c("6789", 4, wire::crc32c("12345", 5)) == 0xE3069283u);
  REQUIRE(wire::crc32c(nullptr, 0) == 0);
}

TEST_CASE("a published slot is read back, and any changed byte is noticed") {
  void* area = mmap(nullptr, wire::state_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(area != MAP_FAILED);
  wire::Slot slot{};
  slot.last_input = 7;
  REQUIRE(wire::publish_slot(area, slot, "outbox", 6, "snapshot", 8));
  auto* state = static_cast<wire::SharedState*>(area);
  REQUIRE(state->published.load() == 1);
  wire::Slot out{};
  REQUIRE(wire::read_slot(area, 1, out));
  REQUIRE(out.last_input == 7);
  REQUIRE(std::memcmp(wire::slot_outbox_bytes(area, 1), "outbox", 6) == 0);
  REQUIRE(std::memcmp(wire::slot_snapshot_bytes(area, 1), "snapshot", 8) == 0);
  REQUIRE_FALSE(wire::read_slot(area, 3, out));  // the same half, another generation

  auto* bytes = static_cast<unsigned char*>(area) + wire::slot_offset(1);
  for (const std::size_t at :
       {std::size_t{8}, sizeof(wire::Slot) - 1, wire::slot_outbox + 5, wire::slot_snapshot}) {
    bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1);
    REQUIRE_FALSE(wire::read_slot(area, 1, out));
    bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1);
  }
  REQUIRE(wire::read_slot(area, 1, out));
  REQUIRE_FALSE(wire::publish_slot(area, slot, "", wire::max_outbox + 1, "", 0));
  munmap(area, wire::state_size);
}

TEST_CASE("a size that would reach beyond the area is refused before it is used") {
  void* area = mmap(nullptr, wire::state_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(area != MAP_FAILED);
  wire::Slot slot{};
  REQUIRE(wire::publish_slot(area, slot, "", 0, "", 0));
  auto* stored = reinterpret_cast<wire::Slot*>(static_cast<unsigned char*>(area) + wire::slot_offset(1));
  stored->snapshot_size = 0xffffffffu;
  wire::Slot out{};
  REQUIRE_FALSE(wire::read_slot(area, 1, out));
  munmap(area, wire::state_size);
}

TEST_CASE("an exit slot proves itself") {
  wire::ExitSlot slot{};
  slot.state = wire::exit_exited;
  slot.kind = wire::kind_code;
  REQUIRE_FALSE(wire::exit_slot_valid(slot));
  wire::seal_exit_slot(slot);
  REQUIRE(wire::exit_slot_valid(slot));
  slot.value = 1;
  REQUIRE_FALSE(wire::exit_slot_valid(slot));
}
