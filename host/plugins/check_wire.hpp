#pragma once
// The page that plugins::check_plugin shares with its child: the request in, results out. Plain fixed-size
// memory, so that an adapter that exits, crashes or closes every descriptor cannot keep a finding back. A
// step's result is stored before the next begins. The adapter could write here; it is checked, not trusted,
// and can only spoil its own report.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hitchrail::plugins {

inline constexpr std::uint32_t check_magic = 0x48435248;  // "HRCH"
inline constexpr int check_adapter_fd = 3;
inline constexpr int check_page_fd = 4;
inline constexpr std::size_t check_detail_size = 480;
inline constexpr std::size_t check_max_steps = 96;
inline constexpr std::size_t check_request_size = 64u << 10;

enum class StepResult : std::uint32_t { none, passed, failed, skipped };

struct StepSlot {
  std::atomic<std::uint32_t> result;  // StepResult, stored last
  char detail[check_detail_size];     // NUL-terminated
};

struct CheckPage {
  std::uint32_t magic;
  std::uint32_t request_size;          // of the launch request below
  std::atomic<std::uint32_t> blocked;  // hook_bit of hooks that crashed, hung or fouled: not called again
  std::atomic<std::uint32_t> first;    // step to begin with
  std::atomic<std::uint32_t> step;     // being run; step_count when all are done
  std::atomic<std::uint32_t> hook;     // Hook being called, 0 = none
  std::atomic<std::uint32_t> calls;    // hooks begun: the parent sees progress
  std::atomic<std::uint32_t> ready;    // 1: confined. Before, the child's death is a fault of ours
  char fault[check_detail_size];       // why it could not be confined
  char request[check_request_size];
  StepSlot steps[check_max_steps];
};

}  // namespace hitchrail::plugins
