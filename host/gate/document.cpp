// The policy document as the gate reads it; see policy.cpp for who writes it.
#include <algorithm>
#include <cstring>

#include "gate/policy.hpp"

namespace hitchrail::gate {

std::string endpoint_text(const gatewire::Listener& listener) {
  Address address{};
  std::copy(std::begin(listener.address), std::end(listener.address), address.begin());
  const std::string text = to_text(address);
  return (is_ipv4(address) ? text : "[" + text + "]") + ":" + std::to_string(listener.port);
}

std::optional<Document> read_document(std::string_view bytes) {
  using gatewire::Header;
  Document out;
  if (bytes.size() < sizeof(Header)) {
    return std::nullopt;
  }
  out.header = reinterpret_cast<const Header*>(bytes.data());
  const Header& header = *out.header;
  if (header.magic != gatewire::magic || header.version != gatewire::version || header.listener_count == 0 ||
      header.listener_count > gatewire::max_listeners || header.rule_count > gatewire::max_rules) {
    return std::nullopt;
  }
  const std::size_t rules_at = sizeof(Header) + header.listener_count * sizeof(gatewire::Listener);
  if (bytes.size() != rules_at + header.rule_count * sizeof(gatewire::Rule)) {
    return std::nullopt;
  }
  out.listeners = reinterpret_cast<const gatewire::Listener*>(bytes.data() + sizeof(Header));
  out.rules = reinterpret_cast<const gatewire::Rule*>(bytes.data() + rules_at);
  for (std::uint32_t i = 0; i < header.rule_count; ++i) {
    const gatewire::Rule& rule = out.rules[i];
    if (rule.size == 0 || strnlen(rule.name, sizeof rule.name) != rule.size || rule.port == 0) {
      return std::nullopt;
    }
  }
  return out;
}

std::uint32_t match(const Document& document, std::string_view host, std::uint16_t port) {
  for (std::uint32_t i = 0; i < document.header->rule_count; ++i) {
    const gatewire::Rule& rule = document.rules[i];
    const std::string_view name(rule.name, rule.size);
    const bool below =
        host.size() > name.size() + 1 && host.ends_with(name) && host[host.size() - name.size() - 1] == '.';
    if (rule.port == port && (rule.subdomains != 0 ? below : host == name)) {
      return i + 1;
    }
  }
  return 0;
}

std::string rule_text(const gatewire::Rule& rule) {
  return std::string(rule.subdomains != 0 ? "subdomain:" : "exact:") + std::string(rule.name, rule.size) +
         ":" + std::to_string(rule.port);
}

const char* reason_name(std::uint8_t reason) {
  static constexpr const char* names[] = {"",
                                          "allowed-by-host-rule",
                                          "fixed-relay",
                                          "invalid-destination",
                                          "default-deny",
                                          "metadata-endpoint-blocked",
                                          "loopback-blocked",
                                          "private-network-blocked",
                                          "reserved-address-blocked",
                                          "name-unresolved",
                                          "method-not-allowed",
                                          "request-invalid",
                                          "various"};
  return reason < sizeof names / sizeof *names ? names[reason] : "";
}

}  // namespace hitchrail::gate
