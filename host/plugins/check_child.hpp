#pragma once
// One child of the checker: started by descriptor, watched, ended, reaped. When run_check_child returns, the
// child is gone, and it could start nothing that outlives it (the filter it runs under allows no process and
// no thread).

#include <atomic>
#include <cstdint>

#include "core/result.hpp"

namespace hitchrail::plugins {

struct ChildEnd {
  bool timed_out = false;
  bool signaled = false;
  int value = 0;  // exit code or signal
};

// `calls` is the page's counter of hooks begun: the time limit starts again with each.
Result<ChildEnd> run_check_child(int runner_fd, int adapter_fd, int page_fd, std::uint32_t step_ms,
                                 const std::atomic<std::uint32_t>& calls);

}  // namespace hitchrail::plugins
