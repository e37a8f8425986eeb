#pragma once
// What one run may reach, as a value: compiled by the host before anything is started, written into a sealed
// memfd for the gate, and the environment that tells the run of it.
//
// Promises: the compiled policy depends on its input only; equal policies have equal hashes; only a relay may
// name a loopback or private address, and a relay is never taken from a repository or an imported profile
// (the caller's duty: see docs/operators/network.md). Refuses: gate-host-invalid, gate-relay-invalid,
// gate-too-many-hosts, gate-too-many-relays. Does not do yet: methods, paths, approvals, plain HTTP, SOCKS.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "gate/address.hpp"
#include "gate/wire.hpp"

namespace hitchrail::gate {

// An address and port of the operator's own configuration that runs reach as it is.
struct Relay {
  Address address{};
  std::uint16_t port = 0;
  auto operator<=>(const Relay&) const = default;
};
// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (127.0.0.1), or an http(s) URL whose host is such a
// literal; nullopt when the host is a name or the text is neither. A URL without a port has its scheme's.
std::optional<Relay> parse_relay(std::string_view text);
// The host of an http(s) URL that is a name, with its port: `api.example.com:8443`; nullopt for a literal.
std::optional<std::string> host_of_url(std::string_view url);

struct Policy {
  // `name`, `*.name` (strictly below), each with `:port` unless the port is 443. Literal public addresses are
  // allowed as exact hosts.
  std::vector<std::string> hosts;
  std::vector<Relay> relays;
};

struct Compiled {
  std::vector<gatewire::Listener> listeners;  // number 0 is the proxy
  std::vector<std::string> rules;             // as text, sorted; index = Record::rule - 1 of a CONNECT
  std::string policy_hash;                    // sha256:…, of `evidence`
  json::Value evidence;                       // run-egress-policy/v1: hosts as rules, relays as digests
  std::string document;                       // bytes for the gate's memfd
};
Result<Compiled> compile(const Policy& policy);

// HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and their lower-case forms. There is no password in them: the
// socket they name exists in this run's network namespace only, so whoever can reach it is the run.
std::vector<std::pair<std::string, std::string>> environment(const Compiled& compiled);

// Text of a listener's address: 127.0.0.1:8080, [::1]:8080.
std::string endpoint_text(const gatewire::Listener& listener);
// What the digests in evidence.relays are of, one text a relay.
std::vector<std::string> relay_texts(const Compiled& compiled);

// ---- names in records
const char* reason_name(std::uint8_t reason);  // of a gatewire::Reason

// ---- the gate's side

// A policy document that was checked; views into `bytes`.
struct Document {
  const gatewire::Header* header = nullptr;
  const gatewire::Listener* listeners = nullptr;
  const gatewire::Rule* rules = nullptr;
};
// nullopt when sizes, counts or names are out of bounds.
std::optional<Document> read_document(std::string_view bytes);
// Index + 1 of the first rule that allows this host and port; 0 = none. `host` as parse_host() gives it.
std::uint32_t match(const Document& document, std::string_view host, std::uint16_t port);
std::string rule_text(const gatewire::Rule& rule);

}  // namespace hitchrail::gate
