#include "launch/egress.hpp"

namespace hitchrail::launch {

Result<gate::Policy> egress_policy(const std::vector<std::string>& relays,
                                   const std::vector<std::pair<std::string, std::string>>& provider_options,
                                   const std::vector<std::string>& provider_hosts) {
  gate::Policy policy;
  policy.hosts = provider_hosts;
  for (const std::string& text : relays) {
    const auto relay = gate::parse_relay(text);
    if (!relay) {
      return Error{ErrorClass::usage,
                   "relay-invalid",
                   "read the options",
                   text,
                   "A relay leads to a literal address and port.",
                   "For example --relay 127.0.0.1:8080; a name is allowed by the preset's allowedHosts."};
    }
    policy.relays.push_back(*relay);
  }
  for (const auto& [key, value] : provider_options) {
    if (value.find("://") == std::string::npos) {
      continue;
    }
    if (const auto relay = gate::parse_relay(value)) {
      policy.relays.push_back(*relay);
    } else if (auto host = gate::host_of_url(value)) {
      policy.hosts.push_back(std::move(*host));
    }
  }
  return policy;
}

json::Value egress_json(const boundary::Compiled& compiled) {
  json::Value value = json::Value::object();
  value.set("mode", boundary::network_name(compiled.network));
  if (compiled.gate) {
    value.set("policyHash", compiled.gate->policy_hash);
    value.set("allowedHostCount", static_cast<std::uint64_t>(compiled.gate->rules.size()));
    value.set("relays", compiled.gate->evidence.get("relays"));
  }
  return value;
}

}  // namespace hitchrail::launch
