#pragma once
// A read-only view of one ring: the memfd's offsets are the stream's, so a record is read where the shim
// wrote it. Only bytes that the shim announced may be asked for; what is below the published position may be
// punched out at any time.

#include <cstdint>
#include <string_view>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::runner {

class Window {
 public:
  explicit Window(Fd ring) : ring_(std::move(ring)) {}
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  ~Window();

  // Valid until the next call.
  Result<std::string_view> view(std::uint64_t from, std::uint64_t to);

 private:
  void unmap();

  Fd ring_;
  void* map_ = nullptr;
  std::uint64_t base_ = 0;
  std::size_t size_ = 0;
};

}  // namespace hitchrail::runner
