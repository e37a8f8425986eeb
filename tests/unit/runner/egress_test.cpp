// What of the gate's records the journal is given.
#include "runner/egress.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/json.hpp"
#include "gate/wire.hpp"

using namespace hitchrail;
using namespace hitchrail::gatewire;
using runner::egress_event;

namespace {

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

json::Value fields_of(const runner::EgressEvent& event) {
  return json::parse(event.fields, json::Duplicates::refuse).value();
}

}  // namespace

TEST_CASE("a decision becomes a run-egress-decision/v1 with its host as a digest") {
  Decision decision{};
  decision.type = event_decision;
  decision.record.allowed = 0;
  decision.record.reason = reason_private;
  decision.record.protocol = protocol_connect;
  decision.record.address_class = class_private;
  decision.record.port = 443;
  decision.record.has_host = 1;
  decision.record.count = 3;
  std::memset(decision.record.host_key, 0xab, sizeof decision.record.host_key);
  std::strcpy(decision.rule, "exact:api.example.com:443");
  const auto event = egress_event(bytes_of(decision));
  CHECK(event.kind == "egress.decision");
  const json::Value fields = fields_of(event);
  CHECK(fields.get("schemaVersion").as_string() == "run-egress-decision/v1");
  CHECK(fields.get("decision").as_string() == "block");
  CHECK(fields.get("reason").as_string() == "private-network-blocked");
  CHECK(fields.get("protocol").as_string() == "https");
  CHECK(fields.get("blockedAddressClass").as_string() == "private");
  CHECK(fields.get("matchedRule").as_string() == "exact:api.example.com:443");
  CHECK(fields.get("port").as_int() == 443);
  CHECK(fields.get("count").as_int() == 3);
  CHECK(fields.get("hostKey").as_string().rfind("sha256:abab", 0) == 0);
  CHECK(fields.get("policyHash").as_string().size() == 71);
}

TEST_CASE("a restart and a loss say how the gate died") {
  Restart restart{event_restarted, 4, 9, 0};
  auto event = egress_event(bytes_of(restart));
  CHECK(event.kind == "egress.gate-restarted");
  CHECK(fields_of(event).get("restarts").as_int() == 4);
  CHECK(fields_of(event).get("signal").as_int() == 9);
  restart = {event_lost, 11, 1 << 8, 0};
  event = egress_event(bytes_of(restart));
  CHECK(event.kind == "egress.gate-lost");
  CHECK(fields_of(event).get("exitCode").as_int() == 1);
}

TEST_CASE("a payload that is cut, of another type or full of anything is passed over or harmless") {
  Decision decision{};
  decision.type = event_decision;
  for (std::size_t size = 0; size < sizeof decision; ++size) {
    REQUIRE(egress_event(bytes_of(decision).substr(0, size)).kind.empty());
  }
  decision.type = 99;
  CHECK(egress_event(bytes_of(decision)).kind.empty());
  std::memset(&decision, 0x7f, sizeof decision);
  decision.type = event_decision;
  CHECK(json::parse(egress_event(bytes_of(decision)).fields, json::Duplicates::refuse).has_value());
}
