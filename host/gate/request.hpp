#pragma once
// The head of a proxy request: CONNECT only, strictly read, at most 16 KiB. Knows nothing of policy.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hitchrail::gate {

inline constexpr std::size_t max_head = 16u << 10;

struct Head {
  enum class State { more, connect, bad, method, too_large } state = State::more;
  std::size_t size = 0;   // of the head with its empty line; what follows belongs to the tunnel
  std::string_view host;  // as written, brackets included
  std::uint16_t port = 0;
};
// `bytes` is everything received so far; `scanned` is where the last call ended, and is moved on, so that a
// head that comes byte by byte costs no more than one that comes at once.
Head parse_head(std::string_view bytes, std::size_t& scanned);

}  // namespace hitchrail::gate
