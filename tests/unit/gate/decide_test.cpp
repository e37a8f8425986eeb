// One decision after the other, without a socket.
#include "gate/decide.hpp"

#include <catch2/catch.hpp>

using namespace hitchrail;
using namespace hitchrail::gate;
using namespace hitchrail::gatewire;
using Next = Verdict::Next;

namespace {

class Table {
 public:
  Table() {
    auto result = compile({{"api.example.com", "*.example.org:8443", "8.8.8.8"}, {}});
    REQUIRE(result.has_value());
    compiled_ = std::move(result).value();
    document_ = *read_document(compiled_.document);
  }
  Verdict ask(const std::string& authority) const {
    const std::string text = "CONNECT " + authority + " HTTP/1.1\r\n\r\n";
    std::size_t scanned = 0;
    return judge_head(document_, parse_head(text, scanned));
  }
  const Document& document() const { return document_; }

 private:
  Compiled compiled_;
  Document document_;
};

Address address(const char* text) {
  const auto v4 = parse_ipv4(text);
  return v4 ? *v4 : *parse_ipv6(text);
}
bool nobody(const Address&) {
  return false;
}

}  // namespace

TEST_CASE("PB-49: each form of loopback and metadata is denied to CONNECT, with its class") {
  const Table table;
  for (const char* host : {"[::ffff:7f00:1]", "[::127.0.0.1]", "[2002:7f00:1::]", "0x7f.1", "2130706433",
                           "0177.0.0.1", "127.1", "[::]", "localhost.", "localhost", "127.0.0.1", "[::1]"}) {
    INFO(host);
    const Verdict verdict = table.ask(std::string(host) + ":443");
    CHECK(verdict.next == Next::refuse);
    CHECK(verdict.status == 403);
    CHECK(std::string(reason_name(verdict.record.reason)) == "loopback-blocked");
    CHECK(verdict.record.address_class == class_loopback);
  }
  const Verdict nat64 = table.ask("[64:ff9b::a9fe:a9fe]:80");
  CHECK(nat64.next == Next::refuse);
  CHECK(nat64.record.reason == reason_metadata);
  const Verdict zone = table.ask("[fe80::1%lo]:443");
  CHECK(zone.next == Next::refuse);
  CHECK(zone.status == 400);
  CHECK(zone.record.reason == reason_invalid);
}

TEST_CASE("a name that is not allowed is refused before anybody resolves it") {
  const Table table;
  for (const char* authority : {"evil.example.com:443", "api.example.com:80",
                                "api.example.com.evil.example:443", "example.org:8443", "9.9.9.9:443"}) {
    INFO(authority);
    const Verdict verdict = table.ask(authority);
    CHECK(verdict.next == Next::refuse);
    CHECK(verdict.record.reason == reason_default_deny);
    CHECK(verdict.record.has_host == 1);
  }
}

TEST_CASE(
    "an allowed name is resolved, and dialled at each of its public addresses in the resolver's order") {
  const Table table;
  Verdict verdict = table.ask("API.example.com.:443");
  REQUIRE(verdict.next == Next::resolve);
  CHECK(verdict.name == "api.example.com");
  judge_addresses(verdict, {address("2606:4700::1"), address("1.1.1.1")}, nobody);
  CHECK(verdict.next == Next::dial);
  CHECK(verdict.record.allowed == 1);
  CHECK(verdict.record.rule != 0);
  CHECK(verdict.addresses == std::vector<Address>{address("2606:4700::1"), address("1.1.1.1")});
  CHECK(table.ask("a.example.org:8443").next == Next::resolve);
  CHECK(table.ask("8.8.8.8:443").next == Next::dial);
}

TEST_CASE("one denied address refuses the whole name") {
  const Table table;
  for (const auto& [text, reason] :
       {std::pair{"127.0.0.1", reason_loopback}, std::pair{"10.0.0.1", reason_private},
        std::pair{"169.254.169.254", reason_metadata}, std::pair{"::ffff:7f00:1", reason_loopback},
        std::pair{"fe80::1", reason_private}, std::pair{"64:ff9b::a00:1", reason_private},
        std::pair{"224.0.0.1", reason_reserved}, std::pair{"198.18.0.1", reason_reserved}}) {
    INFO(text);
    for (const bool first : {true, false}) {
      Verdict verdict = table.ask("api.example.com:443");
      std::vector<Address> addresses{address("1.1.1.1"), address(text)};
      if (first) {
        std::swap(addresses[0], addresses[1]);
      }
      judge_addresses(verdict, addresses, nobody);
      CHECK(verdict.next == Next::refuse);
      CHECK(verdict.record.allowed == 0);
      CHECK(verdict.record.reason == reason);
      CHECK(verdict.addresses.empty());
    }
  }
}

TEST_CASE("a public address that is this machine's own counts as loopback") {
  const Table table;
  Verdict verdict = table.ask("api.example.com:443");
  judge_addresses(verdict, {address("1.1.1.1")}, [](const Address& a) { return a == address("1.1.1.1"); });
  CHECK(verdict.next == Next::refuse);
  CHECK(verdict.record.reason == reason_loopback);
}

TEST_CASE("a name without an address is refused and says so") {
  const Table table;
  Verdict verdict = table.ask("api.example.com:443");
  judge_addresses(verdict, {}, nobody);
  CHECK(verdict.next == Next::refuse);
  CHECK(verdict.status == 502);
  CHECK(verdict.record.reason == reason_unresolved);
}

TEST_CASE("other methods, broken and over-long heads have a status of their own") {
  const Table table;
  for (const auto& [text, status] :
       {std::pair{std::string("GET http://api.example.com/ HTTP/1.1\r\n\r\n"), 405},
        std::pair{std::string("nonsense\r\n\r\n"), 400}, std::pair{std::string(max_head, 'x'), 431}}) {
    std::size_t scanned = 0;
    const Verdict verdict = judge_head(table.document(), parse_head(text, scanned));
    CHECK(verdict.next == Next::refuse);
    CHECK(verdict.status == status);
    CHECK(verdict.record.has_host == 0);
  }
  CHECK(refusal(405, "method-not-allowed").find("\r\nAllow: CONNECT\r\n") != std::string::npos);
}

TEST_CASE("the host in a record is a digest") {
  const Table table;
  const Verdict one = table.ask("evil.example.com:443");
  const Verdict same = table.ask("EVIL.example.com.:443");
  const Verdict other = table.ask("evil2.example.com:443");
  CHECK(std::equal(std::begin(one.record.host_key), std::end(one.record.host_key), same.record.host_key));
  CHECK_FALSE(
      std::equal(std::begin(one.record.host_key), std::end(one.record.host_key), other.record.host_key));
}
