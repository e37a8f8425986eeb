#pragma once
// Internet addresses as 16 bytes, and what kind of place each is. Promises: every textual form a resolver or
// inet_aton() would take for an address is seen as that address; every form that embeds an IPv4 address
// (mapped, compatible, NAT64, 6to4) has the class of the embedded one; what is not known to be public is not
// public. Knows nothing of the rest of the host; no exceptions, no allocation.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gate/wire.hpp"

namespace hitchrail::gate {

using Address = std::array<std::uint8_t, 16>;
using gatewire::AddressClass;

Address mapped(std::uint32_t ipv4);  // host byte order
bool is_ipv4(const Address& address);
std::uint32_t ipv4_of(const Address& address);
AddressClass classify(const Address& address);
const char* class_name(AddressClass value);   // "loopback", …
std::string to_text(const Address& address);  // 127.0.0.1, or RFC 5952 without brackets

// What a host of a request is.
struct Host {
  enum class Kind {
    invalid,  // neither: empty, over-long, a character that no name has, a zone id, percent-encoding
    name,     // `name`: lower case, without its trailing dot
    literal,  // a canonical address: dotted decimal, or IPv6
    odd,      // what inet_aton() takes and nobody writes: 127.1, 0x7f000001, 2130706433, 0177.0.0.1
  } kind = Kind::invalid;
  std::string name;   // also the canonical text of a literal
  Address address{};  // literal, odd
};
// `text` as in an authority: IPv6 in brackets. A name ends in at most one dot.
Host parse_host(std::string_view text);
std::optional<Address> parse_ipv4(std::string_view text);  // dotted decimal only, no leading zeros
std::optional<Address> parse_ipv6(std::string_view text);  // without brackets and zone

// Names that mean a place on this machine or a cloud's metadata service, whatever a resolver says.
AddressClass classify_name(std::string_view name);  // class_public when it means nothing special

}  // namespace hitchrail::gate
