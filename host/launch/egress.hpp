#pragma once
// What a run's gate may reach beside the preset's own hosts. Only the operator names an upstream: by --relay,
// or as an address among the provider's options of this launch. A profile adds names of providers, which are
// public or refused.

#include "boundary/boundary.hpp"
#include "gate/policy.hpp"
#include "launch/launch.hpp"
#include "profiles/profiles.hpp"

namespace hitchrail::launch {

// Error relay-invalid for a --relay that is no literal address with a port.
Result<gate::Policy> egress_policy(const std::vector<std::string>& relays,
                                   const std::vector<std::pair<std::string, std::string>>& provider_options,
                                   const std::vector<std::string>& provider_hosts);
// The network posture in a launch manifest: mode, policy hash, how many hosts, relays as digests.
json::Value egress_json(const boundary::Compiled& compiled);

}  // namespace hitchrail::launch
