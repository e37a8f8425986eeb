#pragma once
// What the gate decided, as the journal says it: run-egress-decision/v1 and the gate's own restarts.

#include <string>
#include <string_view>

namespace hitchrail::runner {

struct EgressEvent {
  std::string kind;    // egress.decision, egress.gate-restarted, egress.gate-lost; "" = not understood
  std::string fields;  // JSON object
};
// `payload` of wire::input_egress.
EgressEvent egress_event(std::string_view payload);

}  // namespace hitchrail::runner
