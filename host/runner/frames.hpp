#pragma once
// The runner's end of the shim's socket: frames in order, read ahead without blocking.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::runner {

struct Message {
  wire::Frame frame{};
  std::string payload;
};

class Frames {
 public:
  explicit Frames(int socket) : socket_(socket) {}

  // Reads what is there; with `wait` at least one more frame. Error shim-gone when the other end closed;
  // frame-invalid.
  Status fill(bool wait);
  [[nodiscard]] bool empty() const { return queue_.empty(); }
  Message take();
  // The newest generation the shim has taken over; such frames never reach the queue.
  [[nodiscard]] std::uint64_t applied() const { return applied_; }
  Status send(std::uint32_t type, std::uint64_t a, std::string_view payload = {});

 private:
  Status split();

  int socket_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::deque<Message> queue_;
  std::uint64_t applied_ = 0;
};

}  // namespace hitchrail::runner
