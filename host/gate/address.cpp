#include "gate/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace hitchrail::gate {
namespace {

using namespace gatewire;

struct Prefix4 {
  std::uint32_t network;
  int bits;
  AddressClass kind;
};
constexpr std::uint32_t quad(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
// The first that matches decides. IANA's registry of special-purpose addresses, and the places where clouds
// hand out credentials.
constexpr Prefix4 table4[] = {
    {quad(169, 254, 169, 254), 32, class_metadata}, {quad(169, 254, 170, 2), 32, class_metadata},
    {quad(169, 254, 170, 23), 32, class_metadata},  {quad(100, 100, 100, 200), 32, class_metadata},
    {quad(168, 63, 129, 16), 32, class_metadata},   {quad(192, 0, 0, 192), 32, class_metadata},
    {quad(0, 0, 0, 0), 8, class_loopback},          {quad(10, 0, 0, 0), 8, class_private},
    {quad(100, 64, 0, 0), 10, class_private},       {quad(127, 0, 0, 0), 8, class_loopback},
    {quad(169, 254, 0, 0), 16, class_link_local},   {quad(172, 16, 0, 0), 12, class_private},
    {quad(192, 0, 0, 0), 24, class_reserved},       {quad(192, 0, 2, 0), 24, class_reserved},
    {quad(192, 88, 99, 0), 24, class_reserved},     {quad(192, 168, 0, 0), 16, class_private},
    {quad(198, 18, 0, 0), 15, class_reserved},      {quad(198, 51, 100, 0), 24, class_reserved},
    {quad(203, 0, 113, 0), 24, class_reserved},     {quad(224, 0, 0, 0), 4, class_multicast},
    {quad(240, 0, 0, 0), 4, class_reserved},
};

AddressClass classify4(std::uint32_t address) {
  for (const Prefix4& prefix : table4) {
    if (((address ^ prefix.network) >> (32 - prefix.bits)) == 0) {
      return prefix.kind;
    }
  }
  return class_public;
}

struct Prefix6 {
  std::uint16_t groups[8];
  int bits;
  AddressClass kind;
};
constexpr Prefix6 table6[] = {
    {{0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254}, 128, class_metadata},
    {{0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254}, 128, class_metadata},
    {{0x64, 0xff9b, 1, 0, 0, 0, 0, 0}, 48, class_private},  // NAT64 of a site's own choice
    {{0xfc00, 0, 0, 0, 0, 0, 0, 0}, 7, class_private},
    {{0xfec0, 0, 0, 0, 0, 0, 0, 0}, 10, class_private},
    {{0xfe80, 0, 0, 0, 0, 0, 0, 0}, 10, class_link_local},
    {{0xff00, 0, 0, 0, 0, 0, 0, 0}, 8, class_multicast},
    {{0x2001, 0, 0, 0, 0, 0, 0, 0}, 23, class_reserved},  // Teredo, ORCHID, benchmarking
    {{0x2001, 0xdb8, 0, 0, 0, 0, 0, 0}, 32, class_reserved},
    {{0x3fff, 0, 0, 0, 0, 0, 0, 0}, 20, class_reserved},
    {{0x2000, 0, 0, 0, 0, 0, 0, 0}, 3, class_public},
};

bool matches(const Address& address, const Prefix6& prefix) {
  for (int bit = 0; bit < prefix.bits; bit += 8) {
    const auto index = static_cast<std::size_t>(bit / 8);
    const auto want =
        static_cast<std::uint8_t>(index % 2 == 0 ? prefix.groups[index / 2] >> 8 : prefix.groups[index / 2]);
    const int left = prefix.bits - bit;
    const auto mask = static_cast<std::uint8_t>(left >= 8 ? 0xff : 0xff << (8 - left));
    if (((address[index] ^ want) & mask) != 0) {
      return false;
    }
  }
  return true;
}

bool zeros(const Address& address, std::size_t from, std::size_t to) {
  return std::all_of(address.begin() + static_cast<std::ptrdiff_t>(from),
                     address.begin() + static_cast<std::ptrdiff_t>(to),
                     [](std::uint8_t b) { return b == 0; });
}

std::uint32_t embedded(const Address& address, std::size_t at) {
  return quad(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

// One number of an inet_aton() form: decimal, 0octal, 0xhex.
bool odd_number(std::string_view text, std::uint64_t& value) {
  int base = 10;
  if (text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  value = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) {
      return false;
    }
    value = value * static_cast<unsigned>(base) + static_cast<unsigned>(digit);
    if (value > 0xffffffffu) {
      return false;
    }
  }
  return true;
}

std::string_view last_label(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  return dot == std::string_view::npos ? text : text.substr(dot + 1);
}

// The URL standard's rule: a host whose last label is a number is meant as an address.
bool ends_in_number(std::string_view text) {
  const std::string_view last = last_label(text);
  if (last.empty()) {
    return false;
  }
  if (std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return true;
  }
  const auto hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  return last.size() >= 2 && last[0] == '0' && (last[1] == 'x' || last[1] == 'X') &&
         std::all_of(last.begin() + 2, last.end(), hex);
}

std::optional<Address> parse_odd(std::string_view text) {
  std::uint64_t parts[4] = {};
  std::size_t count = 0;
  while (true) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    if (count == 4 || dot == 0 || !odd_number(text.substr(0, dot), parts[count])) {
      return std::nullopt;
    }
    ++count;
    if (dot == text.size()) {
      break;
    }
    text.remove_prefix(dot + 1);
  }
  std::uint64_t value = parts[count - 1];
  if (value >= 1ull << (8 * (5 - count))) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (parts[i] > 255) {
      return std::nullopt;
    }
    value |= parts[i] << (24 - 8 * i);
  }
  return mapped(static_cast<std::uint32_t>(value));
}

bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > 253) {
    return false;
  }
  std::size_t label = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i == name.size() || name[i] == '.') {
      if (label == 0 || label > 63 || name[i - 1] == '-' || name[i - label] == '-') {
        return false;
      }
      label = 0;
      continue;
    }
    const char c = name[i];
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_') {
      return false;
    }
    ++label;
  }
  return true;
}

}  // namespace

Address mapped(std::uint32_t ipv4) {
  Address address{};
  address[10] = address[11] = 0xff;
  for (std::size_t i = 0; i < 4; ++i) {
    address[12 + i] = static_cast<std::uint8_t>(ipv4 >> (24 - 8 * i));
  }
  return address;
}

bool is_ipv4(const Address& address) {
  return zeros(address, 0, 10) && address[10] == 0xff && address[11] == 0xff;
}

std::uint32_t ipv4_of(const Address& address) {
  return embedded(address, 12);
}

AddressClass classify(const Address& address) {
  if (is_ipv4(address)) {
    return classify4(ipv4_of(address));
  }
  if (zeros(address, 0, 12)) {  // ::, ::1, and the compatible form, which nothing public uses
    const std::uint32_t inner = embedded(address, 12);
    const AddressClass kind = classify4(inner);
    return inner <= 1 ? class_loopback : kind == class_public ? class_reserved : kind;
  }
  constexpr Prefix6 nat64{{0x64, 0xff9b, 0, 0, 0, 0, 0, 0}, 96, class_none};
  constexpr Prefix6 sixtofour{{0x2002, 0, 0, 0, 0, 0, 0, 0}, 16, class_none};
  if (matches(address, nat64)) {
    return classify4(embedded(address, 12));
  }
  if (matches(address, sixtofour)) {
    return classify4(embedded(address, 2));
  }
  for (const Prefix6& prefix : table6) {
    if (matches(address, prefix)) {
      return prefix.kind;
    }
  }
  return class_reserved;
}

const char* class_name(AddressClass value) {
  switch (value) {
    case class_public:
      return "public";
    case class_loopback:
      return "loopback";
    case class_link_local:
      return "link-local";
    case class_private:
      return "private";
    case class_metadata:
      return "metadata";
    case class_multicast:
      return "multicast";
    case class_reserved:
      return "reserved";
    case class_none:
      break;
  }
  return "";
}

std::string to_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = is_ipv4(address);
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &address[12] : address.data(), text, sizeof text);
  return text;
}

std::optional<Address> parse_ipv4(std::string_view text) {
  std::uint32_t value = 0;
  int parts = 0;
  while (true) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    std::uint64_t part = 0;
    if (dot == 0 || dot > 3 || (dot > 1 && text[0] == '0') || !odd_number(text.substr(0, dot), part) ||
        part > 255) {
      return std::nullopt;
    }
    value = value << 8 | static_cast<std::uint32_t>(part);
    ++parts;
    if (dot == text.size()) {
      break;
    }
    text.remove_prefix(dot + 1);
  }
  return parts == 4 ? std::optional<Address>(mapped(value)) : std::nullopt;
}

std::optional<Address> parse_ipv6(std::string_view text) {
  char copy[INET6_ADDRSTRLEN] = {};
  if (text.empty() || text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  std::memcpy(copy, text.data(), text.size());
  Address address{};
  return inet_pton(AF_INET6, copy, address.data()) == 1 ? std::optional<Address>(address) : std::nullopt;
}

Host parse_host(std::string_view text) {
  Host host;
  if (text.size() >= 2 && text.front() == '[') {
    const auto address = text.back() == ']' ? parse_ipv6(text.substr(1, text.size() - 2)) : std::nullopt;
    if (address) {
      host.kind = Host::Kind::literal;
      host.address = *address;
      host.name = to_text(*address);
    }
    return host;
  }
  if (!text.empty() && text.back() == '.') {
    text.remove_suffix(1);
  }
  std::string name(text);
  for (char& c : name) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (!valid_name(name)) {
    return host;
  }
  if (!ends_in_number(name)) {
    host.kind = Host::Kind::name;
    host.name = std::move(name);
    return host;
  }
  const auto plain = parse_ipv4(name);
  const auto odd = plain ? plain : parse_odd(name);
  if (odd) {
    host.kind = plain ? Host::Kind::literal : Host::Kind::odd;
    host.address = *odd;
    host.name = to_text(*odd);
  }
  return host;
}

AddressClass classify_name(std::string_view name) {
  const auto is_or_below = [&](std::string_view base) {
    return name == base ||
           (name.size() > base.size() && name.ends_with(base) && name[name.size() - base.size() - 1] == '.');
  };
  if (is_or_below("localhost") || name == "localhost.localdomain" || name == "ip6-localhost" ||
      name == "ip6-loopback") {
    return class_loopback;
  }
  for (const std::string_view metadata : {"metadata.google.internal", "metadata.goog", "metadata"}) {
    if (name == metadata) {
      return class_metadata;
    }
  }
  return class_public;
}

}  // namespace hitchrail::gate
