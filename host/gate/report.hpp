#pragma once
// Decision records on their way up. Promises: never blocks; a run that makes decisions without end costs its
// journal a bounded number of records: equal ones are joined and counted, beyond 64 different ones all others
// become one of reason_various; a burst of 64, then two a second, and after 2,000 records one a minute.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gate/wire.hpp"

namespace hitchrail::gate {

class Reporter {
 public:
  explicit Reporter(int socket) : socket_(socket) {}
  void add(const gatewire::Record& record, std::int64_t now_ms);
  void send_due(std::int64_t now_ms);
  // When to call send_due() again; 0 = nothing waits.
  [[nodiscard]] std::int64_t due() const { return waiting_ == 0 ? 0 : due_; }
  void flush();  // at the end: everything that waits, whatever the pace
  [[nodiscard]] bool broken() const { return broken_; }  // nobody takes records any more

 private:
  bool send_first();

  static constexpr std::size_t capacity = 64;
  int socket_;
  std::array<gatewire::Record, capacity> pending_{};
  std::size_t waiting_ = 0;
  std::uint64_t sent_ = 0;
  std::int64_t filled_ms_ = 0;  // tokens are counted up to here
  double tokens_ = 64;
  std::int64_t due_ = 0;
  bool broken_ = false;
};

// Fills host_key and has_host.
void set_host(gatewire::Record& record, std::string_view host);

}  // namespace hitchrail::gate
