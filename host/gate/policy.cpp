#include "gate/policy.hpp"

#include <algorithm>
#include <cstring>

#include "core/canonical.hpp"

namespace hitchrail::gate {
namespace {

constexpr std::uint16_t default_port = 443;
constexpr std::uint16_t first_proxy_port = 61080;  // above the ports the kernel gives out by itself

Error refused(const char* code, const std::string& object, std::string detail, std::string remedy) {
  return Error{ErrorClass::refused, code, "compile gate policy", object, std::move(detail),
               std::move(remedy)};
}

std::optional<std::uint16_t> port_number(std::string_view text) {
  std::uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > 65535) {
      return std::nullopt;
    }
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (text.empty() || value == 0 || value > 65535) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(value);
}

struct Authority {
  std::string_view host;  // brackets included
  std::optional<std::uint16_t> port;
};
std::optional<Authority> split(std::string_view text) {
  Authority out{text, std::nullopt};
  const std::size_t colon = text.rfind(':');
  const std::size_t bracket = text.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    out.host = text.substr(0, colon);
    out.port = port_number(text.substr(colon + 1));
    if (!out.port) {
      return std::nullopt;
    }
  }
  return out;
}

// Authority of an http(s) URL with its port filled in; nullopt for anything else, user info included.
std::optional<Authority> of_url(std::string_view url) {
  std::uint16_t port = 0;
  for (const auto& [scheme, number] : {std::pair{std::string_view("http://"), std::uint16_t{80}},
                                       std::pair{std::string_view("https://"), std::uint16_t{443}}}) {
    if (url.starts_with(scheme)) {
      url.remove_prefix(scheme.size());
      port = number;
      break;
    }
  }
  url = url.substr(0, url.find_first_of("/?#"));
  if (port == 0 || url.empty() || url.find('@') != std::string_view::npos) {
    return std::nullopt;
  }
  auto authority = split(url);
  if (authority && !authority->port) {
    authority->port = port;
  }
  return authority;
}

Error bad_host(const std::string& text, std::string detail) {
  return refused("gate-host-invalid", text, std::move(detail),
                 "A host is `name` or `*.name`, with `:port` unless the port is 443.");
}

Result<gatewire::Rule> compile_host(const std::string& text) {
  const auto authority = split(text);
  if (!authority) {
    return bad_host(text, "its port is no number from 1 to 65535");
  }
  gatewire::Rule rule{};
  std::string_view name = authority->host;
  if (name.starts_with("*.")) {
    rule.subdomains = 1;
    name.remove_prefix(2);
  }
  const Host host = parse_host(name);
  if (host.kind != Host::Kind::name && host.kind != Host::Kind::literal) {
    return bad_host(text, "it is no host name");
  }
  const bool literal = host.kind == Host::Kind::literal;
  if (rule.subdomains != 0 && (literal || host.name.find('.') == std::string::npos)) {
    return bad_host(text, "what stands below `*.` is a name with a dot");
  }
  const AddressClass kind = literal ? classify(host.address) : classify_name(host.name);
  if (kind != gatewire::class_public) {
    return bad_host(text, std::string("it is a ") + class_name(kind) +
                              " place, which CONNECT never reaches; an upstream there is named as a relay");
  }
  rule.port = authority->port.value_or(default_port);
  rule.size = static_cast<std::uint8_t>(host.name.size());
  std::memcpy(rule.name, host.name.data(), host.name.size());
  return rule;
}

bool less(const gatewire::Rule& a, const gatewire::Rule& b) {
  const int order = std::strcmp(a.name, b.name);
  return order != 0 ? order < 0 : std::pair(a.subdomains, a.port) < std::pair(b.subdomains, b.port);
}

gatewire::Listener listener_for(const Address& address, std::uint16_t port) {
  gatewire::Listener listener{};
  std::copy(address.begin(), address.end(), listener.address);
  listener.port = port;
  return listener;
}

// The proxy's port is free inside whatever runs outside; only a relay may have taken it.
gatewire::Listener proxy_listener(const std::vector<Relay>& relays) {
  const Address loopback = mapped(0x7f000001);
  std::uint16_t port = first_proxy_port;
  while (std::find(relays.begin(), relays.end(), Relay{loopback, port}) != relays.end()) {
    ++port;
  }
  return listener_for(loopback, port);
}

std::string relay_text(const gatewire::Listener& listener) {
  return "egress-relay:" + endpoint_text(listener);
}

json::Value evidence_of(const std::vector<gatewire::Rule>& rules, const std::vector<Relay>& relays) {
  json::Value value = json::Value::object();
  value.set("schemaVersion", "run-egress-policy/v1");
  value.set("defaultEgress", "deny");
  json::Value hosts = json::Value::array();
  for (const auto& rule : rules) {
    json::Value host = json::Value::object();
    host.set("kind", rule.subdomains != 0 ? "subdomain" : "exact");
    host.set("value", rule.name);
    host.set("port", static_cast<std::uint64_t>(rule.port));
    hosts.push(std::move(host));
  }
  value.set("allowedHosts", std::move(hosts));
  value.set("blockPrivateNetwork", true);
  value.set("blockMetadataEndpoints", true);
  value.set("blockLoopback", true);
  value.set("allowApprovals", false);
  value.set("tlsInspection", "disabled");
  json::Value digests = json::Value::array();
  for (const Relay& relay : relays) {
    digests.push(sha256_prefixed(relay_text(listener_for(relay.address, relay.port))));
  }
  value.set("relays", std::move(digests));
  return value;
}

template <class T>
void append(std::string& out, const T* items, std::size_t count) {
  out.append(reinterpret_cast<const char*>(items), count * sizeof(T));
}

bool put_hash(const std::string& prefixed, std::uint8_t (&out)[32]) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  constexpr std::size_t skip = 7;  // "sha256:"
  if (prefixed.size() != skip + 64) {
    return false;
  }
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] =
        static_cast<std::uint8_t>(digit(prefixed[skip + 2 * i]) << 4 | digit(prefixed[skip + 2 * i + 1]));
  }
  return true;
}

Status check_relay(const Relay& relay) {
  const AddressClass kind = classify(relay.address);
  const bool any = std::all_of(relay.address.begin(), relay.address.end(), [](auto b) { return b == 0; }) ||
                   (is_ipv4(relay.address) && ipv4_of(relay.address) >> 24 == 0);
  if (any || relay.port == 0 || kind == gatewire::class_multicast || kind == gatewire::class_metadata ||
      kind == gatewire::class_link_local) {
    return refused("gate-relay-invalid", endpoint_text(listener_for(relay.address, relay.port)),
                   std::string("a relay leads to one address and port, and never to a ") + class_name(kind) +
                       " address like this",
                   "Name the upstream by its own address, e.g. 127.0.0.1:8080.");
  }
  return {};
}

}  // namespace

std::optional<Relay> parse_relay(std::string_view text) {
  const bool url = text.find("://") != std::string_view::npos;
  const auto authority = url ? of_url(text) : split(text);
  if (!authority || !authority->port) {
    return std::nullopt;
  }
  const Host host = parse_host(authority->host);
  if (host.kind == Host::Kind::literal) {
    return Relay{host.address, *authority->port};
  }
  if (host.kind == Host::Kind::name && host.name == "localhost") {
    return Relay{mapped(0x7f000001), *authority->port};
  }
  return std::nullopt;
}

std::optional<std::string> host_of_url(std::string_view url) {
  const auto authority = of_url(url);
  if (!authority) {
    return std::nullopt;
  }
  const Host host = parse_host(authority->host);
  if (host.kind != Host::Kind::name || host.name == "localhost") {
    return std::nullopt;
  }
  return host.name + ":" + std::to_string(*authority->port);
}

std::vector<std::string> relay_texts(const Compiled& compiled) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < compiled.listeners.size(); ++i) {  // number 0 is the proxy
    out.push_back(relay_text(compiled.listeners[i]));
  }
  return out;
}

Result<Compiled> compile(const Policy& policy) {
  std::vector<gatewire::Rule> rules;
  for (const std::string& text : policy.hosts) {
    HR_TRY(rule, compile_host(text));
    rules.push_back(rule);
  }
  std::sort(rules.begin(), rules.end(), less);
  rules.erase(std::unique(rules.begin(), rules.end(),
                          [](const auto& a, const auto& b) { return !less(a, b) && !less(b, a); }),
              rules.end());
  std::vector<Relay> relays = policy.relays;
  std::sort(relays.begin(), relays.end());
  relays.erase(std::unique(relays.begin(), relays.end()), relays.end());
  if (rules.size() > gatewire::max_rules) {
    return refused("gate-too-many-hosts", std::to_string(rules.size()), "at most 256 hosts can be allowed",
                   "Allow a whole domain with `*.name`.");
  }
  if (relays.size() >= gatewire::max_listeners) {
    return refused("gate-too-many-relays", std::to_string(relays.size()), "at most 15 relays can be named",
                   "");
  }
  Compiled out;
  out.listeners.push_back(proxy_listener(relays));
  for (const Relay& relay : relays) {
    HR_CHECK(check_relay(relay));
    out.listeners.push_back(listener_for(relay.address, relay.port));
  }
  for (const auto& rule : rules) {
    out.rules.push_back(rule_text(rule));
  }
  out.evidence = evidence_of(rules, relays);
  HR_TRY(hash, document_digest(out.evidence));
  out.policy_hash = hash;
  gatewire::Header header{gatewire::magic,
                          gatewire::version,
                          static_cast<std::uint32_t>(out.listeners.size()),
                          static_cast<std::uint32_t>(rules.size()),
                          {}};
  if (!put_hash(hash, header.policy_hash)) {
    return Error{ErrorClass::internal, "gate-policy-hash", "compile gate policy", hash, "not a digest", ""};
  }
  append(out.document, &header, 1);
  append(out.document, out.listeners.data(), out.listeners.size());
  append(out.document, rules.data(), rules.size());
  return out;
}

std::vector<std::pair<std::string, std::string>> environment(const Compiled& compiled) {
  const std::string proxy = "http://" + endpoint_text(compiled.listeners.front());
  std::string direct;
  for (std::size_t i = 1; i < compiled.listeners.size(); ++i) {
    const Address& address = *reinterpret_cast<const Address*>(compiled.listeners[i].address);
    const std::string text = to_text(address);
    direct += (direct.empty() ? "" : ",") + text;
    // As some programs compare the host as it is written.
    direct += is_ipv4(address) ? "" : ",[" + text + "]";
    if (address == mapped(0x7f000001)) {
      direct += ",localhost";
    }
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* name :
       {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}) {
    out.emplace_back(name, proxy);
  }
  out.emplace_back("NO_PROXY", direct);
  out.emplace_back("no_proxy", direct);
  return out;
}

}  // namespace hitchrail::gate
