#pragma once
// Ids and clocks. Randomness is getrandom(2).

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace hitchrail {

std::string random_id(std::string_view prefix, std::size_t length);  // prefix + [A-Za-z0-9] × length
void random_bytes(void* out, std::size_t size);

std::int64_t unix_millis_now();
std::int64_t monotonic_nanos();
std::string iso8601(std::int64_t unix_millis);  // 2026-01-02T03:04:05.678Z

// Identity of a process: boot id, pid, start time in clock ticks (field 22 of /proc/PID/stat).
struct ProcessIdentity {
  std::string boot_id;
  int pid = 0;
  std::uint64_t start_ticks = 0;
  bool operator==(const ProcessIdentity&) const = default;
};
Result<ProcessIdentity> identify_process(int pid);
std::string boot_id();

}  // namespace hitchrail
