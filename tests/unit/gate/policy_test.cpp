// What an operator may allow, what it becomes, and what the run is told.
#include "gate/policy.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace hitchrail;
using namespace hitchrail::gate;

namespace {

Compiled compiled(const Policy& policy) {
  auto result = compile(policy);
  if (result.has_error()) {
    FAIL(result.error().code << " " << result.error().detail);
  }
  return std::move(result).value();
}

std::string refusal_of(const Policy& policy) {
  const auto result = compile(policy);
  return result.has_error() ? result.error().code : "";
}

Relay relay(const char* text) {
  const auto found = parse_relay(text);
  REQUIRE(found.has_value());
  return *found;
}

}  // namespace

TEST_CASE("a host rule allows that name at that port, a subdomain rule only what is strictly below") {
  const Compiled policy =
      compiled({{"API.example.com", "*.example.org", "other.example:8443", "8.8.8.8"}, {}});
  const auto document = read_document(policy.document);
  REQUIRE(document.has_value());
  CHECK(match(*document, "api.example.com", 443) != 0);
  CHECK(match(*document, "api.example.com", 80) == 0);
  CHECK(match(*document, "x.api.example.com", 443) == 0);
  CHECK(match(*document, "example.com", 443) == 0);
  CHECK(match(*document, "a.example.org", 443) != 0);
  CHECK(match(*document, "a.b.example.org", 443) != 0);
  CHECK(match(*document, "example.org", 443) == 0);
  CHECK(match(*document, ".example.org", 443) == 0);
  CHECK(match(*document, "evilexample.org", 443) == 0);
  CHECK(match(*document, "other.example", 8443) != 0);
  CHECK(match(*document, "other.example", 443) == 0);
  CHECK(match(*document, "8.8.8.8", 443) != 0);
  CHECK(policy.rules == std::vector<std::string>{"exact:8.8.8.8:443", "exact:api.example.com:443",
                                                 "subdomain:example.org:443", "exact:other.example:8443"});
}

TEST_CASE("order and repetition change nothing, and one letter changes the hash") {
  const Compiled one =
      compiled({{"a.example", "b.example", "a.example"}, {relay("127.0.0.1:1"), relay("[::1]:2")}});
  const Compiled two = compiled({{"B.example.", "a.example:443"}, {relay("[::1]:2"), relay("127.0.0.1:1")}});
  CHECK(one.policy_hash == two.policy_hash);
  CHECK(one.document == two.document);
  CHECK(compiled({{"a.example", "c.example"}, {}}).policy_hash != one.policy_hash);
  CHECK(compiled({{}, {relay("127.0.0.1:1")}}).policy_hash !=
        compiled({{}, {relay("127.0.0.1:2")}}).policy_hash);
}

TEST_CASE("the evidence names hosts and has relays as digests only") {
  const Compiled policy = compiled({{"a.example"}, {relay("10.1.2.3:4567")}});
  const std::string text = json::write(policy.evidence);
  CHECK(text.find("a.example") != std::string::npos);
  CHECK(text.find("10.1.2.3") == std::string::npos);
  CHECK(policy.evidence.get("relays").items().size() == 1);
}

TEST_CASE("gate-host-invalid: what is no host, and every place that CONNECT never reaches") {
  for (const char* host : {"",
                           "*",
                           "*.",
                           "*.com",
                           "**.example.com",
                           "a*.example.com",
                           "http://a.example",
                           "a.example/",
                           "a.example:0",
                           "a.example:65536",
                           "a.example:x",
                           "a b",
                           "*.8.8.8.8",
                           "127.0.0.1",
                           "10.0.0.1",
                           "169.254.169.254",
                           "[::1]",
                           "[fd00::1]",
                           "localhost",
                           "x.localhost",
                           "metadata.google.internal",
                           "127.1",
                           "0x7f000001",
                           "[fe80::1%lo]"}) {
    INFO(host);
    CHECK(refusal_of({{host}, {}}) == "gate-host-invalid");
  }
}

TEST_CASE("gate-relay-invalid: a relay never leads to metadata, link-local, multicast or any address") {
  for (const char* upstream : {"169.254.169.254:80", "169.254.1.1:80", "0.0.0.0:80", "[::]:80",
                               "224.0.0.1:80", "[fe80::1]:80", "[ff02::1]:80"}) {
    INFO(upstream);
    CHECK(refusal_of({{}, {relay(upstream)}}) == "gate-relay-invalid");
  }
}

TEST_CASE("gate-too-many-hosts, gate-too-many-relays") {
  Policy hosts;
  Policy relays;
  for (int i = 0; i < 257; ++i) {
    hosts.hosts.push_back("h" + std::to_string(i) + ".example");
    relays.relays.push_back({mapped(0x7f000001), static_cast<std::uint16_t>(1000 + i)});
  }
  CHECK(refusal_of(hosts) == "gate-too-many-hosts");
  hosts.hosts.pop_back();
  CHECK(refusal_of(hosts).empty());
  CHECK(refusal_of(relays) == "gate-too-many-relays");
  relays.relays.resize(15);
  CHECK(refusal_of(relays).empty());
}

TEST_CASE("an upstream is a relay when it is a literal, and a host when it is a name") {
  CHECK(endpoint_text(compiled({{}, {relay("http://127.0.0.1:8080/v1")}}).listeners[1]) == "127.0.0.1:8080");
  CHECK(relay("http://127.0.0.1/v1").port == 80);
  CHECK(relay("https://10.0.0.1").port == 443);
  CHECK(relay("https://[fd00::1]:9/x").port == 9);
  CHECK(relay("localhost:11434") == relay("127.0.0.1:11434"));
  CHECK(relay("http://localhost:11434") == relay("127.0.0.1:11434"));
  for (const char* text :
       {"api.example.com:443", "https://api.example.com", "127.0.0.1", "127.1:80", "ftp://127.0.0.1:1",
        "http://user@127.0.0.1:1", "127.0.0.1:0", "127.0.0.1:99999", "", "http://"}) {
    INFO(text);
    CHECK_FALSE(parse_relay(text).has_value());
  }
  CHECK(host_of_url("https://api.example.com/v1") == "api.example.com:443");
  CHECK(host_of_url("http://api.example.com:8443") == "api.example.com:8443");
  CHECK_FALSE(host_of_url("http://127.0.0.1:1").has_value());
  CHECK_FALSE(host_of_url("http://localhost:1").has_value());
  CHECK_FALSE(host_of_url("api.example.com").has_value());
}

TEST_CASE("the environment names the proxy in both cases and leaves the relays out of it") {
  const Compiled policy =
      compiled({{"a.example"}, {relay("127.0.0.1:61080"), relay("10.0.0.9:80"), relay("[fd00::9]:80")}});
  CHECK(endpoint_text(policy.listeners[0]) == "127.0.0.1:61081");  // the relay has the usual one
  std::map<std::string, std::string> environment;
  for (const auto& [key, value] : gate::environment(policy)) {
    environment[key] = value;
  }
  CHECK(environment.size() == 8);
  for (const char* key :
       {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}) {
    CHECK(environment[key] == "http://127.0.0.1:61081");
  }
  CHECK(environment["NO_PROXY"] == "10.0.0.9,127.0.0.1,localhost,fd00::9,[fd00::9]");
  CHECK(environment["no_proxy"] == environment["NO_PROXY"]);
}

TEST_CASE("a policy document of another size or with a damaged rule is not read") {
  const std::string good = compiled({{"a.example", "*.b.example"}, {relay("127.0.0.1:1")}}).document;
  REQUIRE(read_document(good).has_value());
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    REQUIRE_FALSE(read_document(std::string_view(good).substr(0, cut)).has_value());
  }
  CHECK_FALSE(read_document(good + "x").has_value());
  std::string damaged = good;
  damaged[good.size() - sizeof(gatewire::Rule) + offsetof(gatewire::Rule, size)] = 0;
  CHECK_FALSE(read_document(damaged).has_value());
}
