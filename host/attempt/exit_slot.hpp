#pragma once
// The exit slot: the file `exit` of an attempt, 512 bytes (wire::ExitSlot), preallocated and synced before
// the spawn and written in place, so that the end of a run can be recorded on a full disk.

#include <cstdint>
#include <string>

#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {

std::uint32_t exit_slot_crc(const wire::ExitSlot& slot);
// Makes the file in state `prepared`; synced. Error when it exists.
Status prepare_exit_slot(int attempt_dirfd);
// Errors: exit-slot-absent, exit-slot-damaged (size, magic, version or checksum).
Result<wire::ExitSlot> read_exit_slot(int attempt_dirfd);
// Checksums, writes in place and syncs. Only for whoever holds the attempt's lock while its shim is dead.
Status write_exit_slot(int attempt_dirfd, wire::ExitSlot slot);

std::string exit_kind_name(std::uint32_t kind);      // "code", "signal", "unknown", "none"
std::string exit_source_name(std::uint32_t source);  // "init", "wait", "shim-lost", "none"
std::string slot_text(const char* bytes,
                      std::size_t size);  // a NUL-terminated member, never read past its size

}  // namespace hitchrail::attempt
