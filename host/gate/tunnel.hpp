#pragma once
// One accepted connection: its two sockets and what is on its way between them. No policy, no clock.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gate/address.hpp"

namespace hitchrail::gate {

// One direction of an open tunnel.
struct Direction {
  std::string pending;      // read and not written yet; its memory goes back when it is empty
  std::size_t written = 0;  // of pending
  bool ended = false;       // the reader's end of file was seen
  bool shut = false;        // and handed on
  [[nodiscard]] bool blocked() const { return written < pending.size(); }
};

enum class Pump { idle, moved, failed };
// Moves bytes until one side would block, at most `budget` bytes so that others get their turn. `scratch` is
// shared by all tunnels.
Pump pump(int from, int to, Direction& direction, std::vector<char>& scratch, std::size_t budget);

// A socket that connects; -1 with errno. Non-blocking, Nagle's delay off.
int dial(const Address& address, std::uint16_t port);
// The peer is the address that was judged.
bool peer_is(int socket, const Address& address, std::uint16_t port);
// The kernel would send from this very address, so it is one of this machine's. Sends nothing.
bool is_own_address(const Address& address);
void no_delay(int socket);
// Closes so that the peer sees a broken connection, not a clean end.
void reset(int socket);

}  // namespace hitchrail::gate
