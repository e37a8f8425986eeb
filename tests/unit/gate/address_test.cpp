// Every way to write an address, and what kind of place it is.
#include "gate/address.hpp"

#include <catch2/catch.hpp>

using namespace hitchrail::gate;
using namespace hitchrail::gatewire;

namespace {

struct Form {
  const char* text;  // as in the authority of a CONNECT, without the port
  Host::Kind kind;
  AddressClass place;  // of the address; of the name for Kind::name
};
constexpr auto literal = Host::Kind::literal;
constexpr auto odd = Host::Kind::odd;
constexpr auto name = Host::Kind::name;
constexpr auto invalid = Host::Kind::invalid;

const Form forms[] = {
    // this machine
    {"127.0.0.1", literal, class_loopback},
    {"127.255.255.254", literal, class_loopback},
    {"0.0.0.0", literal, class_loopback},
    {"0.1.2.3", literal, class_loopback},
    {"127.1", odd, class_loopback},
    {"127.0.1", odd, class_loopback},
    {"0", odd, class_loopback},
    {"0x7f.1", odd, class_loopback},
    {"0x7f000001", odd, class_loopback},
    {"0X7F000001", odd, class_loopback},
    {"2130706433", odd, class_loopback},
    {"017700000001", odd, class_loopback},
    {"0177.0.0.1", odd, class_loopback},
    {"0177.0.0.01", odd, class_loopback},
    {"127.0.0.0x1", odd, class_loopback},
    {"127.0.0.1.", literal, class_loopback},
    {"127.1.", odd, class_loopback},
    {"[::1]", literal, class_loopback},
    {"[::]", literal, class_loopback},
    {"[0:0:0:0:0:0:0:1]", literal, class_loopback},
    {"[0000:0000:0000:0000:0000:0000:0000:0001]", literal, class_loopback},
    {"[::ffff:127.0.0.1]", literal, class_loopback},
    {"[::ffff:7f00:1]", literal, class_loopback},
    {"[::FFFF:7F00:0001]", literal, class_loopback},
    {"[0:0:0:0:0:ffff:7f00:1]", literal, class_loopback},
    {"[::127.0.0.1]", literal, class_loopback},
    {"[::7f00:1]", literal, class_loopback},
    {"[64:ff9b::7f00:1]", literal, class_loopback},
    {"[64:ff9b::127.0.0.1]", literal, class_loopback},
    {"[2002:7f00:1::]", literal, class_loopback},
    {"[2002:7f00:0001:1234::5]", literal, class_loopback},
    {"localhost", name, class_loopback},
    {"localhost.", name, class_loopback},
    {"LocalHost", name, class_loopback},
    {"a.b.localhost", name, class_loopback},
    {"localhost.localdomain", name, class_loopback},
    {"ip6-localhost", name, class_loopback},
    // metadata
    {"169.254.169.254", literal, class_metadata},
    {"169.254.170.2", literal, class_metadata},
    {"100.100.100.200", literal, class_metadata},
    {"168.63.129.16", literal, class_metadata},
    {"192.0.0.192", literal, class_metadata},
    {"0xa9fea9fe", odd, class_metadata},
    {"2852039166", odd, class_metadata},
    {"0251.0376.0251.0376", odd, class_metadata},
    {"[::ffff:169.254.169.254]", literal, class_metadata},
    {"[::ffff:a9fe:a9fe]", literal, class_metadata},
    {"[64:ff9b::a9fe:a9fe]", literal, class_metadata},
    {"[2002:a9fe:a9fe::1]", literal, class_metadata},
    {"[fd00:ec2::254]", literal, class_metadata},
    {"[fd20:ce::254]", literal, class_metadata},
    {"metadata.google.internal", name, class_metadata},
    {"METADATA.google.internal.", name, class_metadata},
    {"metadata.goog", name, class_metadata},
    {"metadata", name, class_metadata},
    // private and link-local
    {"10.0.0.1", literal, class_private},
    {"172.16.0.1", literal, class_private},
    {"172.31.255.255", literal, class_private},
    {"192.168.1.1", literal, class_private},
    {"100.64.0.1", literal, class_private},
    {"100.127.255.255", literal, class_private},
    {"10.1", odd, class_private},
    {"0xc0a80101", odd, class_private},
    {"[::ffff:10.0.0.1]", literal, class_private},
    {"[::10.0.0.1]", literal, class_private},
    {"[64:ff9b::a00:1]", literal, class_private},
    {"[64:ff9b:1::1]", literal, class_private},
    {"[64:ff9b:1:808:8:800::]", literal, class_private},
    {"[2002:a00:1::]", literal, class_private},
    {"[fc00::1]", literal, class_private},
    {"[fdff::1]", literal, class_private},
    {"[fec0::1]", literal, class_private},
    {"169.254.0.1", literal, class_link_local},
    {"[fe80::1]", literal, class_link_local},
    {"[febf::1]", literal, class_link_local},
    // nobody's
    {"192.0.0.1", literal, class_reserved},
    {"192.0.2.1", literal, class_reserved},
    {"192.88.99.1", literal, class_reserved},
    {"198.18.0.1", literal, class_reserved},
    {"198.19.255.255", literal, class_reserved},
    {"198.51.100.1", literal, class_reserved},
    {"203.0.113.1", literal, class_reserved},
    {"240.0.0.1", literal, class_reserved},
    {"255.255.255.255", literal, class_reserved},
    {"4294967295", odd, class_reserved},
    {"224.0.0.1", literal, class_multicast},
    {"239.255.255.250", literal, class_multicast},
    {"[ff02::1]", literal, class_multicast},
    {"[2001:db8::1]", literal, class_reserved},
    {"[2001::1]", literal, class_reserved},          // Teredo
    {"[2001:0:7f00:1::]", literal, class_reserved},  // Teredo with a loopback server
    {"[2001:10::1]", literal, class_reserved},       // ORCHID
    {"[3fff::1]", literal, class_reserved},
    {"[100::1]", literal, class_reserved},
    {"[::8.8.8.8]", literal, class_reserved},         // compatible: nothing public uses it
    {"[::ffff:0:8.8.8.8]", literal, class_reserved},  // translated
    {"[4000::1]", literal, class_reserved},
    {"[1::1]", literal, class_reserved},
    // public
    {"8.8.8.8", literal, class_public},
    {"8.8.8.8.", literal, class_public},
    {"172.32.0.1", literal, class_public},
    {"100.128.0.1", literal, class_public},
    {"192.0.1.1", literal, class_public},
    {"198.20.0.1", literal, class_public},
    {"223.255.255.255", literal, class_public},
    {"134744072", odd, class_public},
    {"[2606:4700:4700::1111]", literal, class_public},
    {"[::ffff:8.8.8.8]", literal, class_public},
    {"[64:ff9b::8.8.8.8]", literal, class_public},  // NAT64 of a public address is not private
    {"[2002:808:808::1]", literal, class_public},
    {"api.openai.com", name, class_public},
    {"API.OpenAI.com.", name, class_public},
    {"xn--bcher-kva.example", name, class_public},
    {"notlocalhost", name, class_public},
    {"localhost.example.com", name, class_public},
    {"1.example", name, class_public},
    {"0x7f.example", name, class_public},
    {"a_b.example", name, class_public},
    // neither
    {"", invalid, class_none},
    {".", invalid, class_none},
    {"..", invalid, class_none},
    {"localhost..", invalid, class_none},
    {"a..b", invalid, class_none},
    {"-a.example", invalid, class_none},
    {"a-.example", invalid, class_none},
    {"b\xc3\xbc"
     "cher.example",
     invalid, class_none},
    {"127\xe3\x80\x82"
     "0.0.1",
     invalid, class_none},  // ideographic full stop
    {"\xef\xbc\x91"
     "27.0.0.1",
     invalid, class_none},  // full-width digit
    {"127%2e0.0.1", invalid, class_none},
    {"%6cocalhost", invalid, class_none},
    {"[fe80::1%lo]", invalid, class_none},
    {"[fe80::1%25lo]", invalid, class_none},
    {"fe80::1", invalid, class_none},
    {"::1", invalid, class_none},
    {"[127.0.0.1]", invalid, class_none},
    {"[::1", invalid, class_none},
    {"::1]", invalid, class_none},
    {"[]", invalid, class_none},
    {"[::1].", invalid, class_none},
    {"127.0.0.256", invalid, class_none},
    {"1.2.3.4.5", invalid, class_none},
    {"256", odd, class_loopback},  // 0.0.1.0
    {"127.0.0.1.1", invalid, class_none},
    {"4294967296", invalid, class_none},
    {"0x100000000", invalid, class_none},
    {"08.1.1.1", invalid, class_none},
    {"0x", odd, class_loopback},
    {"a.1", invalid, class_none},
    {"127.0.0.1 ", invalid, class_none},
    {"user@example.com", invalid, class_none},
    {"example.com/", invalid, class_none},
};

}  // namespace

TEST_CASE("every form of an address is seen as that address, and has its class") {
  for (const Form& form : forms) {
    INFO(form.text);
    const Host host = parse_host(form.text);
    CHECK(static_cast<int>(host.kind) == static_cast<int>(form.kind));
    if (form.kind == name) {
      CHECK(static_cast<int>(classify_name(host.name)) == static_cast<int>(form.place));
    } else if (form.kind != invalid) {
      CHECK(std::string(class_name(classify(host.address))) == class_name(form.place));
    }
  }
}

TEST_CASE("a NUL byte, a label of 64 bytes and a name of 254 are no host") {
  using namespace std::string_view_literals;
  CHECK(parse_host("localhost\0.example.com"sv).kind == invalid);
  CHECK(parse_host("[::1\0]"sv).kind == invalid);
  CHECK(parse_host("127.0.0.1\0"sv).kind == invalid);
  CHECK(parse_host(std::string(63, 'a') + ".example").kind == name);
  CHECK(parse_host(std::string(64, 'a') + ".example").kind == invalid);
  std::string longest;
  while (longest.size() < 248) {
    longest += "abcdefg.";
  }
  CHECK(parse_host(longest + "abcde").kind == name);
  CHECK(parse_host(longest + "abcdef").kind == invalid);
}

TEST_CASE("no address of a denied network is public, whichever host part it has") {
  std::uint32_t state = 1;
  const auto random = [&] { return state = state * 1664525 + 1013904223; };
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t host = random();
    for (const std::uint32_t address :
         {0x7f000000u | (host >> 8), 0x0a000000u | (host >> 8), 0xac100000u | (host >> 12),
          0xc0a80000u | (host >> 16), 0xa9fe0000u | (host >> 16), 0xe0000000u | (host >> 4),
          0xf0000000u | (host >> 4), host >> 8}) {
      REQUIRE(classify(mapped(address)) != class_public);
      Address nat64{0, 0x64, 0xff, 0x9b};
      Address sixtofour{0x20, 0x02};
      Address compatible{};
      for (std::size_t k = 0; k < 4; ++k) {
        nat64[12 + k] = sixtofour[2 + k] = compatible[12 + k] =
            static_cast<std::uint8_t>(address >> (24 - 8 * k));
      }
      REQUIRE(classify(nat64) != class_public);
      REQUIRE(classify(sixtofour) != class_public);
      REQUIRE(classify(compatible) != class_public);
    }
  }
}

TEST_CASE("an address as text is read back as itself") {
  for (const char* text : {"127.0.0.1", "8.8.8.8", "255.255.255.255"}) {
    REQUIRE(parse_ipv4(text).has_value());
    CHECK(to_text(*parse_ipv4(text)) == text);
  }
  for (const char* text : {"::1", "2001:db8::1", "fe80::1"}) {
    REQUIRE(parse_ipv6(text).has_value());
    CHECK(to_text(*parse_ipv6(text)) == text);
  }
  CHECK(to_text(*parse_ipv6("::ffff:7f00:1")) == "127.0.0.1");
}
