#pragma once
// What each stage of the road cost: names and nanoseconds, in order. `--timings` prints it, tests/bench reads
// it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace hitchrail::launch {

class Timings {
 public:
  template <class Function>
  auto measure(const char* stage, Function&& function) {
    const std::int64_t begin = monotonic_nanos();
    auto result = function();
    stages_.emplace_back(stage, monotonic_nanos() - begin);
    return result;
  }
  void add(const char* stage, std::int64_t nanos) { stages_.emplace_back(stage, nanos); }
  [[nodiscard]] const std::vector<std::pair<std::string, std::int64_t>>& stages() const { return stages_; }

 private:
  std::vector<std::pair<std::string, std::int64_t>> stages_;
};

}  // namespace hitchrail::launch
