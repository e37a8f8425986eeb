#pragma once
// hitchrail-gate: the one way out of a run whose preset says `network: gate`. One process per run, one epoll
// loop, the resolver's threads beside it.
//
// Promises: a CONNECT reaches only what the policy's hosts allow, at an address that was classified public
// and is dialled as classified; every connection of a relay goes to that relay's own address, byte for byte;
// one record per decision; at most 64 connections of the proxy and 64 of the relays at a time, more wait in
// the backlog; no connection without a deadline. Refuses: any other method, heads over 16 KiB, heads that
// take over 10 s. Does not do yet: plain HTTP, SOCKS, methods and paths, approvals, an upstream proxy.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gate/decide.hpp"
#include "gate/report.hpp"
#include "gate/resolve.hpp"
#include "gate/tunnel.hpp"

namespace hitchrail::gate {

struct Limits {
  std::int64_t head_ms = 10'000;
  std::int64_t resolve_ms = 20'000;
  std::int64_t dial_ms = 5'000;  // for one address
  std::int64_t idle_ms = 600'000;
  std::int64_t linger_ms = 1'000;  // after a refusal, for the client to read it
};

class Gate {
 public:
  Gate(const Document& document, int events, std::vector<int> listeners, Resolver& resolver,
       const Limits& limits = {});
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();
  bool start();
  // Until the caller's end of the events socket closes or is shut.
  void run();

 private:
  static constexpr std::size_t per_kind = 64;

  enum class State { free, head, resolving, dialing, open, lingering };
  struct Connection {
    State state = State::free;
    std::uint32_t generation = 0;
    bool relay = false;
    int client = -1;
    int upstream = -1;
    std::uint32_t client_events = 0;  // as epoll has them; 0 = not in it
    std::uint32_t upstream_events = 0;
    std::string head;
    std::size_t scanned = 0;
    Verdict verdict;
    std::uint16_t port = 0;
    std::size_t next_address = 0;
    Direction up;    // client to upstream
    Direction down;  // upstream to client
    std::int64_t deadline = 0;
  };

  void accept_all(std::size_t listener);
  void open_connection(std::size_t listener, int client);
  void update_listening();
  void ready(Connection& connection);
  void read_head(Connection& connection);
  void act_on(Connection& connection);
  void answers();
  void dial_next(Connection& connection);
  void dialed(Connection& connection);
  void open_tunnel(Connection& connection);
  void pump_both(Connection& connection);
  void refuse(Connection& connection, int status, const char* reason);
  void linger(Connection& connection);
  void finish(Connection& connection, bool broken);
  void want(Connection& connection, bool upstream, std::uint32_t events);
  void expire();
  int wait_time() const;
  std::size_t index(const Connection& connection) const;

  const Document& document_;
  int events_;
  std::vector<int> listeners_;
  Resolver& resolver_;
  Limits limits_;
  Reporter reporter_;
  int epoll_ = -1;
  std::int64_t now_ = 0;
  std::int64_t listen_again_ = 0;                       // after the system was short of descriptors or memory
  std::array<Connection, 2 * per_kind> connections_{};  // the proxy's, then the relays'
  std::array<std::size_t, 2> open_{};
  std::array<bool, gatewire::max_listeners> listening_{};
  std::vector<char> scratch_;
  bool ending_ = false;
};

}  // namespace hitchrail::gate
