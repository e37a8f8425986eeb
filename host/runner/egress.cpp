#include "runner/egress.hpp"

#include <sys/wait.h>

#include <cstdint>
#include <cstring>

#include "core/json.hpp"
#include "gate/policy.hpp"

namespace hitchrail::runner {
namespace {

using namespace gatewire;

std::string hex(const std::uint8_t (&bytes)[32]) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = "sha256:";
  for (const std::uint8_t byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

const char* protocol_name(std::uint8_t protocol) {
  return protocol == protocol_relay ? "relay" : protocol == protocol_http ? "http" : "https";
}

std::string decision_fields(const Decision& event) {
  const Record& record = event.record;
  json::Value value = json::Value::object();
  value.set("schemaVersion", "run-egress-decision/v1");
  value.set("decision", record.allowed != 0 ? "allow" : "block");
  value.set("reason", gate::reason_name(record.reason));
  value.set("policyHash", hex(event.policy_hash));
  value.set("protocol", protocol_name(record.protocol));
  if (record.has_host != 0) {
    value.set("hostKey", hex(record.host_key));
  }
  if (record.port != 0) {
    value.set("port", static_cast<std::uint64_t>(record.port));
  }
  if (const std::size_t size = strnlen(event.rule, sizeof event.rule); size > 0) {
    value.set("matchedRule", std::string(event.rule, size));
  }
  if (record.address_class != class_none) {
    value.set("blockedAddressClass", gate::class_name(static_cast<AddressClass>(record.address_class)));
  }
  value.set("approvalEligible", false);
  if (record.count > 1) {
    value.set("count", static_cast<std::uint64_t>(record.count));
  }
  return json::write(value);
}

std::string restart_fields(const Restart& event) {
  json::Value value = json::Value::object();
  value.set("restarts", static_cast<std::uint64_t>(event.restarts));
  if (WIFSIGNALED(event.wait_status)) {
    value.set("signal", WTERMSIG(event.wait_status));
  } else {
    value.set("exitCode", WEXITSTATUS(event.wait_status));
  }
  return json::write(value);
}

}  // namespace

EgressEvent egress_event(std::string_view payload) {
  std::uint32_t type = 0;
  if (payload.size() < sizeof type) {
    return {};
  }
  std::memcpy(&type, payload.data(), sizeof type);
  if (type == event_decision && payload.size() >= sizeof(Decision)) {
    Decision event;
    std::memcpy(&event, payload.data(), sizeof event);
    return {"egress.decision", decision_fields(event)};
  }
  if ((type == event_restarted || type == event_lost) && payload.size() >= sizeof(Restart)) {
    Restart event;
    std::memcpy(&event, payload.data(), sizeof event);
    return {type == event_lost ? "egress.gate-lost" : "egress.gate-restarted", restart_fields(event)};
  }
  return {};
}

}  // namespace hitchrail::runner
