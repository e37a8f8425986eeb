#include "runner/window.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hitchrail::runner {

namespace {
constexpr std::uint64_t page = 4096;
// Mapped beyond what is asked, so that small records do not cost a mapping each. Bytes beyond the memfd's end
// are never touched.
constexpr std::uint64_t ahead = 4u << 20;
}  // namespace

Window::Window(Window&& other) noexcept
    : ring_(std::move(other.ring_)),
      map_(std::exchange(other.map_, nullptr)),
      base_(other.base_),
      size_(std::exchange(other.size_, 0)) {}

Window::~Window() {
  unmap();
}

void Window::unmap() {
  if (map_ != nullptr) {
    ::munmap(map_, size_);
    map_ = nullptr;
    size_ = 0;
  }
}

Result<std::string_view> Window::view(std::uint64_t from, std::uint64_t to) {
  if (from >= to) {
    return std::string_view{};
  }
  if (map_ == nullptr || from < base_ || to > base_ + size_) {
    unmap();
    const std::uint64_t base = from / page * page;
    const std::uint64_t size = (std::max(to, from + ahead) - base + page - 1) / page * page;
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, ring_.get(), static_cast<off_t>(base));
    if (map == MAP_FAILED) {
      return errno_error("map ring", std::to_string(from), errno);
    }
    map_ = map;
    base_ = base;
    size_ = size;
  }
  return std::string_view(static_cast<const char*>(map_) + (from - base_), to - from);
}

}  // namespace hitchrail::runner
