#pragma once
// What hitchrail-gate shares with the program above it (the shim, or a caller without one): its descriptors,
// its policy document and its records. Plain structs, host byte order, one build at all ends; another version
// is refused. Includes nothing of ours, so that the static shim stays small.
//
// An address is always 16 bytes, IPv4 as ::ffff:a.b.c.d.

#include <cstddef>
#include <cstdint>

namespace hitchrail::gatewire {

// ---- descriptors the gate inherits; its environment is empty, its argv {"hitchrail-gate"}
enum GateFd : int {
  gate_policy = 3,     // sealed memfd: Header, Listener[], Rule[]
  gate_events = 4,     // SOCK_SEQPACKET: one Record a message, to above; end of file asks it to flush and end
  gate_listeners = 5,  // 5 + n = the listening socket of listener n, made inside the run's network namespace
};

// ---- policy document
inline constexpr std::uint32_t magic = 0x45475248;  // "HRGE"
inline constexpr std::uint32_t version = 1;
inline constexpr std::uint32_t max_listeners = 16;
inline constexpr std::uint32_t max_rules = 256;

struct Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t listener_count;  // number 0 is the proxy, all others are relays
  std::uint32_t rule_count;
  std::uint8_t policy_hash[32];
};
struct Listener {
  std::uint8_t address[16];  // listened on inside; of a relay also the upstream on the host's side
  std::uint16_t port;
  std::uint16_t reserved;
};
struct Rule {
  std::uint16_t port;
  std::uint8_t subdomains;  // 1: only names below `name`; 0: `name` itself
  std::uint8_t size;
  char name[256];  // ASCII, lower case, no trailing dot
};

// ---- records
enum Protocol : std::uint8_t { protocol_connect = 1, protocol_http = 2, protocol_relay = 3 };
enum Reason : std::uint8_t {
  reason_none,
  reason_host_rule,     // allowed-by-host-rule
  reason_relay,         // fixed-relay
  reason_invalid,       // invalid-destination
  reason_default_deny,  // default-deny
  reason_metadata,      // metadata-endpoint-blocked
  reason_loopback,      // loopback-blocked
  reason_private,       // private-network-blocked
  reason_reserved,      // reserved-address-blocked
  reason_unresolved,    // name-unresolved
  reason_method,        // method-not-allowed
  reason_bad_request,   // request-invalid
  reason_various,       // several decisions that were too many to be told apart
};
enum AddressClass : std::uint8_t {
  class_none,
  class_public,
  class_loopback,
  class_link_local,
  class_private,
  class_metadata,
  class_multicast,
  class_reserved,
};
struct Record {
  std::uint8_t allowed;
  std::uint8_t reason;         // Reason
  std::uint8_t protocol;       // Protocol
  std::uint8_t address_class;  // AddressClass that was blocked, else class_none
  std::uint16_t port;          // 0 = unknown
  std::uint8_t has_host;
  std::uint8_t reserved;
  std::uint32_t rule;         // index + 1 of the matching rule, or of the relay's listener; 0 = none
  std::uint32_t count;        // decisions like this one that it stands for
  std::uint8_t host_key[32];  // SHA-256 of "egress-host:" + host
};

// What the shim hands to the runner as payload of input_egress. The first member says which.
enum EventType : std::uint32_t {
  event_decision = 1,   // Decision
  event_restarted = 2,  // Restart: the gate died and another one serves the same sockets
  event_lost = 3,       // Restart: it died too often; the run has no way out any more
};
struct Decision {
  std::uint32_t type;
  std::uint32_t reserved;
  Record record;
  std::uint8_t policy_hash[32];
  char rule[272];  // the matching rule as text, NUL-terminated, "" = none
};
struct Restart {
  std::uint32_t type;
  std::uint32_t restarts;
  std::int32_t wait_status;  // of the one that died
  std::uint32_t reserved;
};

}  // namespace hitchrail::gatewire
